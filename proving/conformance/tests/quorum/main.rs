//! A quorum of stores, in virtual time. In `odd_members`, some members deviate from the rest.

mod batches;
mod contention;
mod errors;
mod odd_members;
mod outages;
mod random_faults;
mod renewals;
mod reports;
mod restarts;
mod seed_bugs;
mod world;
