//! A store on a cluster.

mod permissions;
mod push;
mod replicas;
mod silent;
mod slots;
mod tls;
