//! Archives whose bytes depend only on their contents: sorted entries, one timestamp, owned by
//! root.

use std::{collections::BTreeSet, io::Write as _};

use flate2::{Compression, GzBuilder};
use sha2::{Digest as _, Sha256};
use tar::{Builder, EntryType, Header};

/// The mode of a program.
pub(super) const PROGRAM: u32 = 0o755;
/// The mode of any other file.
pub(super) const FILE: u32 = 0o644;

/// A file of a package.
#[derive(Clone)]
pub(super) struct Entry {
    pub(super) path: String,
    pub(super) mode: u32,
    pub(super) bytes: Vec<u8>,
}

impl Entry {
    pub(super) fn file(path: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self { path: path.into(), mode: FILE, bytes: bytes.into() }
    }

    pub(super) fn program(path: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self { mode: PROGRAM, ..Self::file(path, bytes) }
    }
}

/// A tar archive of these files and their directories.
pub(super) fn tar(mut entries: Vec<Entry>, epoch: u64) -> Result<Vec<u8>, String> {
    entries.sort_by(|one, other| one.path.cmp(&other.path));
    let mut archive = Builder::new(Vec::new());
    let mut add = |path: &str, kind: EntryType, mode: u32, bytes: &[u8]| {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_mtime(epoch);
        header.set_uid(0);
        header.set_gid(0);
        header.set_size(bytes.len() as u64);
        archive.append_data(&mut header, path, bytes).map_err(|error| format!("{path}: {error}"))
    };
    for directory in directories(&entries) {
        add(&directory, EntryType::Directory, PROGRAM, &[])?;
    }
    for Entry { path, mode, bytes } in &entries {
        add(path, EntryType::Regular, *mode, bytes)?;
    }
    archive.into_inner().map_err(|error| error.to_string())
}

/// Every directory above the files, parents first.
fn directories(entries: &[Entry]) -> BTreeSet<String> {
    let slashes = |entry: &Entry| {
        let above = entry.path.match_indices('/').map(|(at, _)| entry.path[..=at].to_owned());
        above.collect::<Vec<_>>()
    };
    entries.iter().flat_map(slashes).collect()
}

/// Compresses with gzip, without a name or a timestamp.
pub(super) fn gzip(bytes: &[u8], level: Compression) -> Result<Vec<u8>, String> {
    let mut encoder = GzBuilder::new().mtime(0).write(Vec::new(), level);
    encoder.write_all(bytes).and_then(|()| encoder.finish()).map_err(|error| error.to_string())
}

/// The checksum in hexadecimal digits.
pub(super) fn sha256(bytes: &[u8]) -> String {
    sha256_bytes(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The checksum in bytes.
pub(super) fn sha256_bytes(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}
