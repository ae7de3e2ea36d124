//! The locks of one machine: several processes, one file, no server.
//!
//! [`FileStore`] is a [`Store`](leasehold_core::Store) for programs that run on an async runtime; [`Ledger`] is the same file without
//! a thread of its own, for programs that block. What a lease is, both leave to [`leasehold_core::apply`]: a request loads the
//! records of its claim, applies it, and writes back what changed, in one short transaction.
//!
//! Leases are counted on the clock that runs since the machine was booted, the same for all its processes, and are void after a
//! reboot. A process that is killed at any instruction leaves a sound file. What was granted through its [`FileStore`] ends with it;
//! what was granted through a [`Ledger`] that is not [mortal](Ledger::mortal), when the lease ends.
//!
//! Whoever waits stands in line with all others of the machine, and is told of its turn by a datagram.
//!
//! # What this does not promise
//!
//! Locks between machines: a network file system is refused. Locks between users: file and directory are one user's own.
//! Locks between containers that were given boot clocks of their own (`unshare --time`): they count different time.

#[cfg(not(target_os = "linux"))]
compile_error!("leasehold-file reads the boot id and the kinds of file systems as Linux gives them");

mod boot;
mod census;
mod connection;
mod desk;
mod examine;
mod file_system;
mod ledger;
mod message;
mod peer;
mod place;
mod post;
mod queue;
mod schema;
#[cfg(test)]
mod stopped;
mod store;
mod table;
mod trouble;
mod writer;

pub use boot::BootId;
pub use ledger::Ledger;
pub use store::FileStore;
