//! The topologies: what decides which server to connect to.

pub(crate) mod cluster;
pub(crate) mod sentinel;

use std::sync::Arc;

pub(crate) use sentinel::{Sentinels, is_master};

use crate::address::server::ServerAddr;

/// The source of a server's address before each connection.
#[derive(Debug)]
pub(crate) enum Topology {
    Single(ServerAddr),
    Sentinel(Arc<Sentinels>),
}
