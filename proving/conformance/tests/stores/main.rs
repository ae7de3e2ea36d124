//! The lists of checks, on every store: on memory, files, servers, clusters, quorums of them, and
//! on an application's own store.

mod every_store;
mod own_store;
