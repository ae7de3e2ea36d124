//! Locks on Redis and Valkey: servers that fail, clusters and replicas that change, connections
//! that the program lends, and the locks and features of other libraries.

mod clusters;
mod followed_members;
mod guards;
mod lending;
mod naming;
mod replacing;
mod seed_features;
