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
//! A store is one user's, or that of the users of a group for whom root [made it](make_group_store).
//!
//! # What this does not promise
//!
//! Locks between machines: a network file system is refused. So is a file that is mounted without its directory, and a container
//! with a boot id of its own beside processes that are outside of it. Time namespaces are seen through.
//!
//! Protection of a group's users from each other: each of them can write to the file, and so take, break or spoil any lock in it, keep
//! it from the others, and end processes that use it. What else these processes may do is not in their reach.

#[cfg(not(target_os = "linux"))]
compile_error!("leasehold-file reads the boot id and the kinds of file systems as Linux gives them");

mod boot;
mod census;
mod clock;
mod connection;
mod diagnose;
mod file_system;
mod ledger;
mod logs;
mod message;
mod notifier;
mod place;
mod queue;
mod schema;
mod sessions;
#[cfg(test)]
mod stopped;
mod store;
mod table;
mod trouble;
mod turns;
mod url;
mod users;
mod worker;
mod writer;

pub use boot::BootId;
pub use ledger::Ledger;
pub use place::make_group_store;
pub use store::FileStore;
pub use url::{home, path_in_url};
