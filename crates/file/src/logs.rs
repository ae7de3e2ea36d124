//! The log that a connection writes to, so that nobody writes to one that others do not read.
//!
//! SQLite opens `-wal` and `-shm` by name and keeps them open. If somebody deletes or replaces them
//! meanwhile, the current and the later users would have two logs of one file, and each would grant
//! what the other has granted.

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::path::Path;
use std::str::FromStr;

use rustix::fs::lstat;

use crate::census::FileId;

/// The files of one log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Logs {
    wal: FileId,
    shm: FileId,
}

impl Logs {
    /// The log next to the file at a path; `None` unless both of its files exist.
    pub(crate) fn beside(file: &Path) -> Option<Self> {
        let at = |suffix| lstat(with_suffix(file, suffix)).ok().map(|found| FileId::of(&found));
        Some(Self { wal: at("-wal")?, shm: at("-shm")? })
    }

    /// The log that this process has open for the file at a path, if it differs from the one next
    /// to the file.
    pub(crate) fn open_at(file: &Path) -> Option<Self> {
        let logs = Self::beside(file)?;
        let names = ["-wal", "-shm"].map(|suffix| with_suffix(file, suffix));
        let mut open = Vec::new();
        for entry in fs::read_dir("/proc/self/fd").ok()?.flatten() {
            // Only descriptors with such a name are inspected: inspecting a file on a server that
            // is down could block for ever.
            let named =
                |path: &Path| names.iter().any(|name| Path::new(name).file_name() == path.file_name());
            if fs::read_link(entry.path()).is_ok_and(|path| named(&path)) {
                open.extend(rustix::fs::stat(entry.path()).ok().map(|found| FileId::of(&found)));
            }
        }
        [logs.wal, logs.shm].iter().all(|file| open.contains(file)).then_some(logs)
    }
}

fn with_suffix(file: &Path, suffix: &str) -> OsString {
    let mut name = file.as_os_str().to_owned();
    name.push(suffix);
    name
}

impl fmt::Display for Logs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { wal, shm } = self;
        write!(f, "{}:{} {}:{}", wal.device, wal.inode, shm.device, shm.inode)
    }
}

impl FromStr for Logs {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let file = |text: &str| {
            let (device, inode) = text.split_once(':')?;
            Some(FileId { device: device.parse().ok()?, inode: inode.parse().ok()? })
        };
        let logs =
            text.split_once(' ').and_then(|(wal, shm)| Some(Self { wal: file(wal)?, shm: file(shm)? }));
        logs.ok_or(())
    }
}
