//! Many processes that wait for one lock, and their faults.

mod at_once;
mod broken;
mod failover;
mod holder;
mod killed;
mod network;
mod scene;
mod server;
mod stopped;
