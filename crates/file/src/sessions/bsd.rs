//! macOS and the BSDs cannot address a socket by a descriptor. So where its path is too long, or
//! other users could replace it, there is no socket, and waiters check by themselves.

use std::convert::Infallible;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// `sun_path` has 104 bytes, including the final zero.
pub(super) const LONGEST_ADDRESS: usize = 103;

pub(super) fn short_path(_: &File, _: &str) -> io::Result<PathBuf> {
    Err(ErrorKind::InvalidFilename.into())
}

/// A socket, even if its name is reused.
#[derive(Debug)]
pub(super) struct Pinned(Infallible);

impl Pinned {
    pub(super) fn at(_: &Path) -> io::Result<Self> {
        Err(ErrorKind::Unsupported.into())
    }

    pub(super) fn path(&self) -> PathBuf {
        match self.0 {}
    }
}
