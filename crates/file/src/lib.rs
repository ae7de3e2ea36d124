//! Leasehold's store in a file: locks between the processes of one machine, without a server.
//!
//! [`FileStore`] is a [`Store`](leasehold_core::Store) for programs on an async runtime; [`Ledger`]
//! uses the same file without a separate thread, for programs that block. Both leave the semantics
//! to [`leasehold_core::apply`]: a request loads the records of its claim, applies the function,
//! and writes back what changed, in one short transaction.
//!
//! Leases are counted on the clock that starts at boot, which is the same for all processes, and
//! are void after a reboot. A process that is killed at any instruction leaves an intact file.
//! Grants of a [`FileStore`] end with its process. Grants of a [`Ledger`] that is not
//! [mortal](Ledger::mortal) end with their leases.
//!
//! All waiters of the machine share one queue per key, and are notified of their turn by a
//! datagram.
//!
//! A store belongs to one user, or to the users of a group for whom root [created
//! it](make_group_store).
//!
//! # What this does not promise
//!
//! Locks between machines: a network file system is refused. So is a file that is mounted without
//! its directory, and a container with its own boot id while processes outside of it use the file.
//! Time namespaces are supported.
//!
//! Locks of a process that was forked, without calling exec, from one that has the file open: it is
//! refused.
//!
//! Protection of a group's users from each other: each of them can write to the file, and so take,
//! break or corrupt any lock in it, block the others, and end processes that use it. They have no
//! other access to these processes.

#[cfg(not(any(target_os = "linux", target_vendor = "apple", target_os = "freebsd")))]
compile_error!(
    "the file store, and the command with it, need Linux, macOS or FreeBSD: elsewhere use the library with a server"
);

mod boot;
mod census;
mod clock;
mod connection;
mod db_path;
mod diagnose;
mod error;
#[cfg_attr(target_os = "linux", path = "file_system/linux.rs")]
#[cfg_attr(not(target_os = "linux"), path = "file_system/bsd.rs")]
mod file_system;
mod inline_gate;
mod ledger;
mod logs;
mod message;
mod notifier;
mod queue;
mod schema;
mod sessions;
mod shortage;
#[cfg(test)]
mod stopped_clock;
mod store;
mod table;
mod url;
mod users;
mod worker;
#[cfg_attr(target_os = "linux", path = "writer/linux.rs")]
#[cfg_attr(not(target_os = "linux"), path = "writer/bsd.rs")]
mod writer;

pub use boot::BootId;
pub use db_path::make_group_store;
pub use ledger::Ledger;
pub use store::FileStore;
pub use url::{home, path_in_url, url_of_path};
