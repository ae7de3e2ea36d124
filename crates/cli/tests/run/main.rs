//! `leasehold run`, as a process among processes: on the file store, and on real servers where a server makes a difference.

mod bad_input;
mod environment;
mod exclusion;
mod exit_codes;
mod first_process;
mod harness;
mod loss;
mod minder;
mod pty;
mod servers_refusing;
mod signals;
mod surroundings;
mod terminal;
