//! The log that a connection writes to, so that nobody writes to one that others do not read.
//!
//! If somebody deletes or replaces `-wal` and `-shm`, which SQLite keeps open, the current and the
//! later users would have two logs of one file, and each would grant what the other has granted.

#[cfg_attr(target_os = "linux", path = "logs/linux.rs")]
#[cfg_attr(not(target_os = "linux"), path = "logs/bsd.rs")]
mod kernel;

use std::fmt;
use std::io;

use crate::census::FileId;
use crate::db_path::DbPath;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Logs {
    wal: FileId,
    shm: FileId,
}

impl Logs {
    /// The log next to the file at a path; `None` unless both of its files exist.
    pub(crate) fn beside(db_path: &DbPath) -> Option<Self> {
        let [wal, shm] =
            db_path.log().map(|path| path.symlink_metadata().ok().map(|found| FileId::of(&found)));
        Some(Self { wal: wal?, shm: shm? })
    }

    /// The log that this process has open for the file at a path, if it is the one next to the file.
    pub(crate) fn open_at(db_path: &DbPath) -> io::Result<Option<Self>> {
        let Some(logs) = Self::beside(db_path) else { return Ok(None) };
        Ok(kernel::are_open(&[logs.wal, logs.shm], db_path)?.then_some(logs))
    }

    /// Reads what [`Display`](fmt::Display) writes.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let file = |text: &str| {
            let (device, inode) = text.split_once(':')?;
            Some(FileId { device: device.parse().ok()?, inode: inode.parse().ok()? })
        };
        let (wal, shm) = text.split_once(' ')?;
        Some(Self { wal: file(wal)?, shm: file(shm)? })
    }
}

impl fmt::Display for Logs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { wal, shm } = self;
        write!(f, "{}:{} {}:{}", wal.device, wal.inode, shm.device, shm.inode)
    }
}
