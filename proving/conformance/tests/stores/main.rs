//! The checks on memory, files, servers, clusters, quorums, and an application's own store.

mod every_store;
mod own_store;
