//! One lock, many processes that wait for it, and the faults that they suffer.

mod at_once;
mod broken;
mod failover;
mod holder;
mod killed;
mod network;
mod scene;
mod server;
mod stopped;
