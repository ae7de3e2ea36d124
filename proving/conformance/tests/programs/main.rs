//! What programs do with locks: block a thread or run a runtime, elect leaders, run jobs, handle
//! errors, and end. The examples are among them.

mod adopter;
mod blocking;
mod blocking_looking;
mod blocking_modes;
mod election;
mod election_processes;
mod errors;
mod examples;
mod jobs;
mod last_releases;
mod place;
mod runtimes;
