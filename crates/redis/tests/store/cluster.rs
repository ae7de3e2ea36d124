//! A store on a cluster.

mod permissions;
mod replicas;
mod silent;
mod slots;
mod tls;
