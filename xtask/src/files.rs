//! Lists the files of a directory.

use std::{
    fs, io,
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
