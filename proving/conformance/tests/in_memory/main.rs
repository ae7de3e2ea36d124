//! Requests, guards and elections of a program with locks in memory, on tokio's runtime and clock.

mod downgrade;
mod guards;
mod leaders;
mod requests;
mod transferring;
