//! Files in a directory, and the turns of programs that write there.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

/// Every file under a directory, including links, in a stable order.
pub(crate) fn files_under(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.append(&mut files_under(&entry.path())?);
        } else {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

/// Waits until no other `cargo xtask` downloads into this place.
pub(crate) fn take_turn(place: &Path) -> io::Result<File> {
    fs::create_dir_all(place)?;
    let lock = File::create(place.join(".lock"))?;
    lock.lock()?;
    Ok(lock)
}
