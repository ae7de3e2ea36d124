//! Many processes that wait for one lock, and their faults; and processes that share locks.

mod at_once;
mod broken;
mod failover;
mod holder;
mod killed;
mod network;
mod scene;
mod server;
mod sharing;
mod stopped;
