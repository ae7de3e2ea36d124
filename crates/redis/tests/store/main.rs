//! The store against real servers.

mod flavors;
mod lent;
mod listing;
mod login;
mod outages;
mod secrets;
mod settling;
mod tls;
mod world;
