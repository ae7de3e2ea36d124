//! A store on a cluster.

mod permissions;
mod slots;
