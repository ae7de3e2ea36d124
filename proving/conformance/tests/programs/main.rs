//! What programs do with locks: block, elect, run jobs, handle errors, and end; and the examples.

mod adopter;
mod blocking;
mod blocking_looking;
mod blocking_modes;
mod election;
mod errors;
mod examples;
mod jobs;
mod last_releases;
mod place;
mod runtimes;
