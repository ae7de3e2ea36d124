//! Requests, guards and elections of a program with locks in memory, on tokio's runtime and clock,
//! in virtual time, and with the kit for tests of programs.

mod downgrade;
mod guards;
mod guards_in_virtual_time;
mod jobs;
mod leaders;
mod polling_waiters;
mod requests;
mod testing_kit;
mod transferring;
