//! A quorum of stores, in virtual time.

mod any_weather;
mod contention;
mod errors;
mod outages;
mod renewals;
mod restarts;
mod seed_bugs;
mod world;
