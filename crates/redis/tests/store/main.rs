//! The store against real servers.

mod flavors;
mod lent;
mod line;
mod line_crossings;
mod line_order;
mod line_outages;
mod listing;
mod login;
mod member;
mod native;
mod outages;
mod queue;
mod secrets;
mod settling;
mod tls;
mod world;
