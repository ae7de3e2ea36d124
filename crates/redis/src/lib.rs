//! Leasehold's store on one Redis, Valkey or KeyDB server.
//!
//! [`RedisStore`] is the store, and [`ClusterStore`] is the store on a cluster. [`script`],
//! [`wire`] and [`slot`] write their requests, and do no I/O: use them to implement or test the
//! same protocol. `docs/wire.md` describes every byte of it.
//!
//! `ARCHITECTURE.md` follows a request through these modules.
//!
//! Programs use the `leasehold` crate.

// docs.rs names the feature that each item needs.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod address;
mod batch;
mod client;
mod connection;
mod diagnose;
mod fault;
mod redirect;
mod reply;
mod requests;
pub mod script;
pub mod slot;
mod store;
mod topology;
pub mod wire;

#[cfg(feature = "fred")]
pub use fred;
pub use redis;
pub use store::RedisStore;
pub use topology::cluster::store::ClusterStore;
