//! Where the file may be.
//!
//! Whoever can write to the file or put another in its place can take every lock, so file and directory are one user's own;
//! all is checked before SQLite opens anything.

use std::fs::{DirBuilder, Metadata, OpenOptions, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{OFlags, StatVfsMountFlags};

use crate::census::FileId;
use crate::file_system;
use crate::trouble::{Trouble, on_one_line};

/// The bits by which others than the owner could write.
const OTHERS_WRITE: u32 = 0o022;

/// A path that the file may be at.
#[derive(Clone, Debug)]
pub(crate) struct Place(PathBuf);

impl Place {
    /// The place of a path; a relative one counts from the directory that the process is in now.
    pub(crate) fn new(path: &Path) -> Self {
        Self(std::path::absolute(path).unwrap_or_else(|_| path.into()))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// The place on one line, as a URL of the store.
    pub(crate) fn name(&self) -> String {
        format!("file:{}", on_one_line(&self.0.to_string_lossy()))
    }

    /// Makes what is missing, and refuses what is not safe. Afterwards a file is there, maybe an empty one.
    ///
    /// It may open and close the file: only while an [`Opening`](crate::census::Opening) is held.
    pub(crate) fn prepare(&self) -> Result<FileId, Trouble> {
        prepare_directory(self.directory()?)?;
        let created = self.create()?;
        let file = self.check()?;
        // A file can be mounted by itself.
        if !created {
            file_system::check(&self.0)?;
        }
        Ok(file)
    }

    /// The same without making or opening anything: whether the file is there.
    pub(crate) fn look(&self) -> Result<bool, Trouble> {
        let directory = self.directory()?;
        if let Some(there) = directory.ancestors().find(|above| above.exists()) {
            file_system::check(there)?;
        }
        if !directory.exists() {
            return Ok(false);
        }
        check_directory(directory)?;
        if self.0.symlink_metadata().is_err() {
            return Ok(false);
        }
        self.check()?;
        file_system::check(&self.0).map(|()| true)
    }

    fn directory(&self) -> Result<&Path, Trouble> {
        match (self.0.parent().filter(|_| self.0.is_absolute()), self.0.file_name()) {
            (Some(directory), Some(_)) => Ok(directory),
            _ => Err(Trouble::lasting("the path names no file: give the path of a file")),
        }
    }

    /// The file that is at the path now.
    pub(crate) fn file_now(&self) -> Option<FileId> {
        let file = rustix::fs::lstat(&self.0).ok()?;
        Some(FileId { device: file.st_dev, inode: file.st_ino })
    }

    /// Creates the file unless something is there already; says which.
    fn create(&self) -> Result<bool, Trouble> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600).custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
        match options.open(&self.0) {
            // The umask may have taken bits away; SQLite gives -wal and -shm the mode of the file.
            Ok(file) => file
                .set_permissions(Permissions::from_mode(0o600))
                .map(|()| true)
                .map_err(|error| Trouble::io("set the mode of", &self.0, &error)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(Trouble::io("create", &self.0, &error)),
        }
    }

    fn check(&self) -> Result<FileId, Trouble> {
        let at = self.0.display();
        let found = self.0.symlink_metadata().map_err(|error| Trouble::io("look at", &self.0, &error))?;
        let mode = found.mode() & 0o7777;
        let refused = if found.is_symlink() {
            format!("{at} is a symbolic link: give the path of the file itself")
        } else if !found.is_file() {
            format!("{at} is no regular file: give the path of a file")
        } else if !is_ours(&found) {
            format!("{at} belongs to user {}: use a file of your own", found.uid())
        } else if mode & OTHERS_WRITE != 0 {
            format!("{at} can be written by others (mode {mode:04o}): run chmod 600 on it")
        } else if mode & 0o600 != 0o600 {
            format!("{at} is read-only (mode {mode:04o}): run chmod 600 on it")
        } else if found.nlink() > 1 {
            // SQLite names -wal after the path: through two names the file would have two of them, and be torn.
            format!("{at} has another name too (a hard link): remove one of the names")
        } else {
            return Ok(FileId { device: found.dev(), inode: found.ino() });
        };
        Err(Trouble::lasting(refused))
    }
}

fn prepare_directory(directory: &Path) -> Result<(), Trouble> {
    // Before anything is created, so that nothing is left on a file system that is refused.
    if let Some(there) = directory.ancestors().find(|above| above.exists()) {
        file_system::check(there)?;
    }
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .map_err(|error| Trouble::io("create the directory", directory, &error))?;
    check_directory(directory)
}

fn check_directory(directory: &Path) -> Result<(), Trouble> {
    let found = directory.metadata().map_err(|error| Trouble::io("look at", directory, &error))?;
    let (at, mode) = (directory.display(), found.mode() & 0o7777);
    let refused = if !is_ours(&found) {
        format!("the directory {at} belongs to user {}: use one of your own", found.uid())
    } else if mode & OTHERS_WRITE != 0 {
        format!(
            "the directory {at} can be written by others (mode {mode:04o}): run chmod 700 on it, or use another"
        )
    } else if mode & 0o300 != 0o300 {
        format!("the directory {at} is read-only (mode {mode:04o}): run chmod 700 on it")
    } else if is_mounted_read_only(directory) {
        format!("the directory {at} lies on a read-only file system: use another, or mount it writable")
    } else {
        return Ok(());
    };
    Err(Trouble::lasting(refused))
}

fn is_ours(found: &Metadata) -> bool {
    found.uid() == rustix::process::geteuid().as_raw()
}

fn is_mounted_read_only(directory: &Path) -> bool {
    rustix::fs::statvfs(directory).is_ok_and(|system| system.f_flag.contains(StatVfsMountFlags::RDONLY))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_absolute_and_shows_on_one_line() {
        let here = std::env::current_dir().unwrap();
        assert_eq!(Place::new(Path::new("a.db")).path(), here.join("a.db"));
        assert_eq!(Place::new(Path::new("/x/a\nb.db")).name(), "file:/x/a\\nb.db");
    }

    #[test]
    fn a_path_without_a_file_is_refused() {
        for path in ["", "/", "/tmp/.."] {
            let fault = Place::new(Path::new(path)).prepare().unwrap_err().of("file:");
            assert_eq!(&*fault.reason, "the path names no file: give the path of a file", "{path}");
        }
    }
}
