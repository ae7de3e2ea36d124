//! Addresses of sockets by their descriptors, which /proc gives names.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// `sun_path` has 108 bytes, including the final zero.
pub(super) const LONGEST_ADDRESS: usize = 107;

/// A path of a name in a directory, however long the directory's own path is.
pub(super) fn short_path(directory: &File, name: &str) -> io::Result<PathBuf> {
    Ok(format!("/proc/self/fd/{}/{name}", directory.as_raw_fd()).into())
}

/// A socket, even if its name is reused.
#[derive(Debug)]
pub(super) struct Pinned(File);

impl Pinned {
    pub(super) fn at(path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW;
        let found = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
        let is_socket = found.metadata()?.file_type().is_socket();
        if is_socket { Ok(Self(found)) } else { Err(ErrorKind::NotFound.into()) }
    }

    pub(super) fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.0.as_raw_fd()).into()
    }
}
