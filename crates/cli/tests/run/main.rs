//! `leasehold run`, as a process among processes: on the file store, and on real servers where a server makes a difference.

mod bad_input;
mod breaking;
mod environment;
mod exclusion;
mod exit_codes;
mod first_process;
mod guide;
mod harness;
mod help;
mod hold;
mod home;
mod loss;
mod ls;
mod minder;
mod modes;
mod options;
mod pty;
mod servers_refusing;
mod several;
mod several_stores;
mod show;
mod signals;
mod status;
mod surroundings;
mod terminal;
mod top;
