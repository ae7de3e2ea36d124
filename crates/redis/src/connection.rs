//! Connections: from an address to commands answered in order. Nothing here knows what a lock is.

pub(crate) mod connect;
pub(crate) mod dial;
#[cfg(feature = "fred")]
pub(crate) mod fred;
pub(crate) mod lent;
pub(crate) mod link;
pub(crate) mod push_health;
pub(crate) mod route;
pub(crate) mod send;
pub(crate) mod subscription;
