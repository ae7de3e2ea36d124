//! The store against real servers.

mod batches;
#[cfg(feature = "fred")]
mod by_fred;
mod cluster;
mod damaged;
mod diagnose;
mod diagnose_sentinels;
mod flavors;
mod forms;
mod hostile;
mod lent;
mod line;
mod line_crossings;
mod line_order;
mod line_outages;
mod listing;
mod login;
mod member;
mod older;
mod outages;
mod queue;
mod replicas;
mod secrets;
mod sentinel;
mod settling;
mod signal;
mod tenants;
mod tls;
mod together;
mod watching;
mod world;
