//! Tests of the file store from outside: several connections, several processes, and damage to the
//! file.

mod bad_days;
mod child;
mod clocks;
mod containers;
mod deleted_logs;
mod one_file_for_all;
mod queue;
mod same_as_core;
mod seeds;
mod several_users;
mod waiters;
mod where_the_file_may_be;
