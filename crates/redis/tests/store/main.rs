//! The store against real servers.

mod batches;
#[cfg(feature = "fred")]
mod by_fred;
mod cluster;
mod damaged;
mod diagnose;
mod diagnose_sentinels;
mod flavors;
mod hostile;
mod lent;
mod listing;
mod login;
mod member;
mod older;
mod outages;
mod queue;
mod queue_interventions;
mod queue_order;
mod queue_outages;
mod replicas;
mod sentinel;
mod settling;
mod signal;
mod tenants;
mod tls;
mod together;
mod world;
