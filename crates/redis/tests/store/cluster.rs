//! A store on a cluster.

mod permissions;
mod replicas;
mod slots;
mod tls;
