//! A store on a cluster.

mod slots;
