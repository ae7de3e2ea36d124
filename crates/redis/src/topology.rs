//! More than one server behind one URL.

pub(crate) mod cluster;
