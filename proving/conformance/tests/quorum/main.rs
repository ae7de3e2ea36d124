//! A quorum of stores, in virtual time.

mod batches;
mod contention;
mod errors;
mod outages;
mod random_faults;
mod renewals;
mod reports;
mod restarts;
mod seed_bugs;
mod world;
