//! Leasehold's store on one Redis, Valkey or KeyDB server.
//!
//! [`RedisStore`] is the store, and [`ClusterStore`] is the store on a cluster. [`script`],
//! [`wire`] and [`slot`] write their requests, and do no I/O: use them to implement or test the
//! same protocol. `docs/wire.md` describes every byte of it.
//!
//! The path of an uncontended `lock()`: [`RedisStore`] → `in_line` (a grant, with or without a
//! place in the queue) → `batch` (which requests are sent together) → [`script`] (requests and
//! answers) → `link` (the connection). Other modules are called explicitly: `confirm` asks
//! replicas, `member` finds out which run of the server vouches, `clock` reads the server's time,
//! `topology` finds the server, `diagnose` diagnoses it.
//!
//! Programs use the `leasehold` crate.

// docs.rs names the feature that each item needs.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod access;
mod address;
mod bare;
mod batch;
#[cfg(feature = "fred")]
mod by_fred;
mod channels;
mod client;
mod clock;
mod confirm;
mod connect;
mod contended;
mod deadline;
mod diagnose;
mod dial;
mod ear;
mod fault;
mod hearing;
mod in_line;
mod lent;
mod link;
mod member;
mod parameters;
mod place;
mod release;
mod reply;
pub mod script;
mod signs_of_life;
pub mod slot;
mod store;
mod tend;
#[cfg(feature = "tls")]
mod tls;
mod topology;
pub mod wire;

#[cfg(feature = "fred")]
pub use fred;
pub use redis;
pub use store::RedisStore;
pub use topology::cluster::ClusterStore;
