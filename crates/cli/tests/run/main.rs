//! `leasehold run`, as a process among processes: on the file store, and on real servers where a server makes a difference.

mod bad_input;
mod environment;
mod exclusion;
mod exit_codes;
mod harness;
mod loss;
mod minder;
mod servers_refusing;
mod signals;
