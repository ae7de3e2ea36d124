//! Who says which server to connect to.

pub(crate) mod cluster;

use crate::place::Place;

/// What a connector asks before each connection.
#[derive(Debug)]
pub(crate) enum Topology {
    /// Always the same place.
    Single(Place),
}
