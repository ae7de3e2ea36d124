//! The topologies: what decides which server to connect to.

pub(crate) mod cluster;
pub(crate) mod sentinel;

use std::sync::Arc;

pub(crate) use sentinel::{PORT as SENTINEL_PORT, Sentinels, is_master};

use crate::place::Place;

/// What a connector asks before each connection.
#[derive(Debug)]
pub(crate) enum Topology {
    /// Always the same address.
    Single(Place),
    /// The master that the sentinels report.
    Sentinel(Arc<Sentinels>),
}
