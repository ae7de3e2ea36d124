//! Files and directories: the calls of the standard library, with errors that name the file.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use tempfile::TempDir;

/// The text of an error about a file.
pub(crate) fn error_at(path: &Path) -> impl Fn(io::Error) -> String {
    move |error| format!("{}: {error}", path.display())
}

pub(crate) fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(error_at(path))
}

pub(crate) fn read_text(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(error_at(path))
}

pub(crate) fn write(path: &Path, bytes: impl AsRef<[u8]>) -> Result<(), String> {
    fs::write(path, bytes).map_err(error_at(path))
}

/// Moves a file or a directory within a file system.
pub(crate) fn put(from: &Path, to: &Path) -> Result<(), String> {
    fs::rename(from, to).map_err(|error| format!("{} to {}: {error}", from.display(), to.display()))
}

/// Makes the file executable for everybody: unpacking a wheel loses that.
pub(crate) fn make_executable(path: &Path) -> Result<(), String> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).map_err(error_at(path))
}

pub(crate) fn create_directory(path: &Path) -> Result<(), String> {
    fs::create_dir_all(path).map_err(error_at(path))
}

/// A directory inside another, created if it is missing.
pub(crate) fn directory(parent: &Path, name: &str) -> Result<PathBuf, String> {
    let path = parent.join(name);
    create_directory(&path).map(|()| path)
}

/// Removes a directory, if it exists.
pub(crate) fn remove(directory: &Path) -> Result<(), String> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error_at(directory)(error)),
        _ => Ok(()),
    }
}

/// A directory for something that is put into its place in this one when it is complete.
pub(crate) fn workshop(place: &Path) -> Result<TempDir, String> {
    let create = || {
        fs::create_dir_all(place)?;
        tempfile::Builder::new().prefix(".incoming-").tempdir_in(place)
    };
    create().map_err(error_at(place))
}

pub(crate) fn temporary() -> Result<TempDir, String> {
    tempfile::tempdir().map_err(|error| error.to_string())
}

/// Every file under a directory, including links, in a stable order.
pub(crate) fn files_under(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).map_err(error_at(directory))? {
        let entry = entry.map_err(error_at(directory))?;
        if entry.file_type().map_err(error_at(&entry.path()))?.is_dir() {
            found.append(&mut files_under(&entry.path())?);
        } else {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

/// Waits until no other `cargo xtask` downloads into this place.
pub(crate) fn take_turn(place: &Path) -> Result<File, String> {
    let lock = || {
        fs::create_dir_all(place)?;
        let lock = File::create(place.join(".lock"))?;
        lock.lock()?;
        Ok(lock)
    };
    lock().map_err(error_at(place))
}
