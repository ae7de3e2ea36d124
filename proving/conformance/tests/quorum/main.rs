//! A majority of stores, in time that passes at will.

mod any_weather;
mod contention;
mod errors;
mod outages;
mod renewals;
mod restarts;
mod seed_bugs;
mod world;
