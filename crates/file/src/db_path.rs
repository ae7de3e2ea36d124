//! The path of the file, and the checks that it is safe. A user who can replace the file can take
//! every lock. So the file and its directory must belong to one user, or to root for a group.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leasehold_core::{Escaped, Fault};
use rustix::fs::{Access, AtFlags, CWD, OFlags, StatVfsMountFlags, accessat};
use rustix::io::Errno;

use crate::census::FileId;
use crate::error::FileError;
use crate::file_system;
use crate::url::url_of_path;
use crate::users::{Users, own_user};

/// A path at which the file may be, and those at which SQLite keeps its log.
#[derive(Clone, Debug)]
pub(crate) struct DbPath {
    file: PathBuf,
    wal: PathBuf,
    shm: PathBuf,
}

/// The path next to a file that begins with its name.
pub(crate) fn beside(file: &Path, suffix: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DirectoryState {
    directory: FileId,
    /// When it last changed, in seconds and nanoseconds since 1970.
    changed: (i64, i64),
}

impl DirectoryState {
    /// True if from now on no entry of the directory changes without another state.
    pub(crate) fn is_settled(self) -> bool {
        /// Longer than a tick of the kernel's clock, from which it takes the times of changes.
        const TICK: Duration = Duration::from_millis(100);
        let (seconds, nanos) = self.changed;
        // Some file systems keep only seconds.
        let is_exact = nanos % 1_000_000 != 0;
        let changed = u64::try_from(seconds).ok().zip(u32::try_from(nanos).ok());
        let age = changed.and_then(|(seconds, nanos)| {
            SystemTime::now().duration_since(UNIX_EPOCH + Duration::new(seconds, nanos)).ok()
        });
        is_exact && age.is_some_and(|age| age > TICK)
    }
}

impl DbPath {
    /// The place of a path; a relative path starts at the current directory.
    pub(crate) fn new(path: &Path) -> Self {
        let file = std::path::absolute(path).unwrap_or_else(|_| path.into());
        Self { wal: beside(&file, "-wal"), shm: beside(&file, "-shm"), file }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.file
    }

    /// The two files of the log.
    pub(crate) fn log(&self) -> [&Path; 2] {
        [&self.wal, &self.shm]
    }

    /// The place on one line, as a URL of the store.
    pub(crate) fn name(&self) -> String {
        Escaped(url_of_path(&self.file).as_bytes()).to_string()
    }

    /// Creates what is missing, and refuses what is not safe. It may open and close the file: only
    /// call it with an [`Opening`](crate::census::Opening).
    pub(crate) fn prepare(&self) -> Result<(FileId, Users), FileError> {
        let directory = self.directory()?;
        // Before anything is created, so that nothing is left on a refused file system.
        check_file_system(directory)?;
        refuse_to_make_for_another(directory)?;
        make_directories(directory)
            .map_err(|error| FileError::io("create the directory", directory, &error))?;
        let users = check_directory(directory)?;
        self.create(users)?;
        Ok((self.check(users)?, users))
    }

    /// The same without creating or opening anything: the users of the file, if there is one.
    pub(crate) fn look(&self) -> Result<Option<Users>, FileError> {
        let directory = self.directory()?;
        check_file_system(directory)?;
        let Some(there) = first_there(directory)? else { return Ok(None) };
        if there != directory {
            refuse_to_make_for_another(directory)?;
            return may_write(there).map(|()| None);
        }
        let users = check_directory(directory)?;
        may_write(directory)?;
        if self.file_now().is_none() {
            return Ok(None);
        }
        self.check(users)?;
        may_write(&self.file)?;
        Ok(Some(users))
    }

    /// True if the file could be created, but is not there.
    pub(crate) fn is_missing(&self) -> Result<bool, FileError> {
        Ok(self.file_now().is_none() && self.look()?.is_none())
    }

    fn directory(&self) -> Result<&Path, FileError> {
        /// Those of SQLite, which adds `-journal` to them.
        const LONGEST_NAME: usize = 255 - "-journal".len();
        const LONGEST_PATH: usize = 512 - "-journal".len();
        let is_file = self.file.is_absolute() && !self.file.as_os_str().as_bytes().ends_with(b"/");
        let directory = self.file.parent().filter(|_| is_file);
        let (Some(directory), Some(name)) = (directory, self.file.file_name()) else {
            return Err(FileError::lasting("the path names no file: give the path of a file"));
        };
        for (what, length, longest) in [
            ("name of the file", name.len(), LONGEST_NAME),
            ("path", self.file.as_os_str().len(), LONGEST_PATH),
        ] {
            if length > longest {
                return Err(FileError::lasting(format_args!(
                    "the {what} has {length} bytes, and may have {longest}: give a shorter one"
                )));
            }
        }
        Ok(directory)
    }

    pub(crate) fn directory_now(&self) -> Option<DirectoryState> {
        let found = self.file.parent()?.metadata().ok()?;
        Some(DirectoryState { directory: FileId::of(&found), changed: (found.ctime(), found.ctime_nsec()) })
    }

    pub(crate) fn file_now(&self) -> Option<FileId> {
        self.file.symlink_metadata().ok().map(|found| FileId::of(&found))
    }

    /// Creates the file unless there is one. In a group's directory only its owner creates anything
    /// permanent: a file of another user could be replaced by that user.
    fn create(&self, users: Users) -> Result<(), FileError> {
        let Users::Group { owner, .. } = users else { return self.create_file(users) };
        let sessions = directory_of_sessions(&self.file);
        if owner == own_user() {
            make_directory_of_sessions(&sessions, users)
                .map_err(|error| FileError::io("use the directory", &sessions, &error))?;
            return self.create_file(users);
        }
        for path in [&self.file, &self.wal, &self.shm, &sessions] {
            let at = path.display();
            match path.symlink_metadata() {
                Ok(found) if users.may_write(&found) && !found.is_symlink() => {}
                Ok(_) => {
                    return Err(FileError::lasting(format_args!(
                        "{at} belongs to another user or group than its directory, or others can write it: as the owner of the \
                         directory remove it, and run `leasehold init` again"
                    )));
                }
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    return Err(FileError::lasting(format_args!(
                        "{at} is not there, and only the owner of the directory may create it: run `leasehold init` again"
                    )));
                }
                Err(error) => return Err(FileError::io("look at", path, &error)),
            }
        }
        Ok(())
    }

    fn create_file(&self, users: Users) -> Result<(), FileError> {
        let mode = users.file_mode();
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(mode).custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
        match options.open(&self.file) {
            // The umask may have removed bits; SQLite gives -wal and -shm the mode of the file.
            Ok(file) => file
                .set_permissions(Permissions::from_mode(mode))
                .map_err(|error| FileError::io("set the mode of", &self.file, &error)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(FileError::io("create", &self.file, &error)),
        }
    }

    fn check(&self, users: Users) -> Result<FileId, FileError> {
        let at = self.file.display();
        let found =
            self.file.symlink_metadata().map_err(|error| FileError::io("look at", &self.file, &error))?;
        let (mode, wanted) = (found.mode() & 0o7777, users.file_mode());
        let refused = if found.is_symlink() {
            format!("{at} is a symbolic link: give the path of the file itself")
        } else if !found.is_file() {
            format!("{at} is not a regular file: give the path of a file")
        } else if !users.own(&found) {
            match users {
                Users::One => format!("{at} belongs to user {}: use a file of your own", found.uid()),
                Users::Group { owner, group } => format!(
                    "{at} belongs to user {} and group {}, its directory to user {owner} and group {group}: run chown \
                     {owner}:{group} on it",
                    found.uid(),
                    found.gid()
                ),
            }
        } else if mode & users.forbidden() != 0 {
            format!("{at} can be written by others (mode {mode:04o}): run chmod {wanted:o} on it")
        } else if mode & wanted != wanted {
            format!("{at} is read-only (mode {mode:04o}): run chmod {wanted:o} on it")
        } else if found.nlink() > 1 {
            // SQLite names -wal after the path, so it would have two, and be corrupted.
            format!("{at} has another name too (a hard link): remove one of the names")
        } else if file_system::is_mounted(&self.file)? {
            // As above: its log would be in another directory.
            format!(
                "{at} is mounted by itself, without its directory: mount the whole directory, or give it a store of its own"
            )
        } else {
            file_system::check(&self.file)?;
            return self.check_sessions(users).map(|()| FileId::of(&found));
        };
        Err(FileError::lasting(refused))
    }

    /// Without sessions, a killed holder's lock would last, and waiters would poll.
    fn check_sessions(&self, users: Users) -> Result<(), FileError> {
        let (sessions, wanted) = (directory_of_sessions(&self.file), users.session_directory_mode());
        let at = sessions.display();
        let refused = match sessions.symlink_metadata() {
            Err(_) => return Ok(()),
            Ok(found) if !found.is_dir() => {
                format!("{at} is not a directory, as that of a file's sessions must be: remove it")
            }
            Ok(found) if !users.own(&found) => {
                format!("{at} belongs to user {} and group {}: remove it", found.uid(), found.gid())
            }
            Ok(found) if found.mode() & users.forbidden() != 0 || found.mode() & wanted != wanted => {
                let mode = found.mode() & 0o7777;
                format!(
                    "{at} has mode {mode:04o}, and others can write it or its users cannot: run chmod {wanted:o} on it"
                )
            }
            Ok(_) => return Ok(()),
        };
        Err(FileError::lasting(refused))
    }
}

/// Creates a store for the users of a group: a directory that belongs to the caller, which should
/// be root. An existing directory must be empty, or have been created this way. The file in it is
/// created when its owner first uses it. Returns its path.
///
/// Each user of the group can acquire, wait and release. Only the owner can replace the file that
/// all of them use. The others can write to it, and so take, break or corrupt any lock in it, and
/// end processes that use it.
///
/// # Errors
///
/// Why it could not be created, or is not safe.
pub fn make_group_store(directory: &Path, group: u32) -> Result<PathBuf, Fault> {
    let db_path = DbPath::new(&directory.join("leases.db"));
    match db_path.directory().and_then(|directory| make_group_directory(directory, group)) {
        Ok(()) => Ok(db_path.path().into()),
        Err(error) => Err(error.of(&db_path.name())),
    }
}

pub(crate) fn directory_of_sessions(file: &Path) -> PathBuf {
    beside(file, "-peers")
}

/// Creates the directory of a file's sessions, unless it exists.
///
/// # Errors
///
/// Also if others than its users could write to it, because they could make a session appear dead.
pub(crate) fn make_directory_of_sessions(directory: &Path, users: Users) -> io::Result<File> {
    let created = match DirBuilder::new().mode(0o700).create(directory) {
        Ok(()) => true,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => false,
        Err(error) => return Err(error),
    };
    if created {
        // The umask may have removed bits. Only its owner can have replaced it in the meantime.
        std::fs::set_permissions(directory, Permissions::from_mode(users.session_directory_mode()))?;
    }
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let handle = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(directory)?;
    let found = handle.metadata()?;
    if users.may_write(&found) { Ok(handle) } else { Err(ErrorKind::PermissionDenied.into()) }
}

fn make_group_directory(directory: &Path, group: u32) -> Result<(), FileError> {
    let users = Users::Group { owner: own_user(), group };
    let io = |done, error| FileError::io(done, directory, &error);
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            return Err(io("create the directory", error));
        }
        _ => {}
    }
    let flags = (OFlags::DIRECTORY | OFlags::NOFOLLOW).bits().cast_signed();
    let handle = OpenOptions::new().read(true).custom_flags(flags).open(directory);
    let handle = handle.map_err(|error| io("open the directory", error))?;
    let found = handle.metadata().map_err(|error| io("look at", error))?;
    if users.own(&found) && Users::of(&found) == users {
        return check_directory(directory).map(drop);
    }
    if found.uid() != own_user() {
        return Err(FileError::lasting(format_args!(
            "the directory {} belongs to user {}, who could replace all that is in it: name one that is not there yet",
            directory.display(),
            found.uid()
        )));
    }
    let is_empty = directory.read_dir().is_ok_and(|mut entries| entries.next().is_none());
    if !is_empty {
        return Err(FileError::lasting(format_args!(
            "the directory {} is not empty, and was not made for this group: name one that is not there yet",
            directory.display()
        )));
    }
    rustix::fs::fchown(&handle, None, Some(rustix::fs::Gid::from_raw(group)))
        .map_err(|error| io("give to the group", error.into()))?;
    handle
        .set_permissions(Permissions::from_mode(users.directory_mode()))
        .map_err(|error| io("set the mode of", error))?;
    check_directory(directory).map(drop)
}

/// Refuses to create a directory as root inside one of another user, whom this would keep from the store.
fn refuse_to_make_for_another(directory: &Path) -> Result<(), FileError> {
    // If it cannot be looked at, creating it fails with the cause.
    let Ok(Some(there)) = first_there(directory) else { return Ok(()) };
    let user = there.metadata().map_or(0, |found| found.uid());
    if there == directory || user == 0 || own_user() != 0 {
        return Ok(());
    }
    Err(FileError::lasting(format_args!(
        "the directory {} is not there, and {} belongs to user {user}, who could not use what root makes in it: run this as \
         that user, or make the directory first",
        directory.display(),
        there.display()
    )))
}

/// Creates a directory and those above it that are missing.
fn make_directories(directory: &Path) -> io::Result<()> {
    let missing: Vec<_> = directory.ancestors().take_while(|above| !above.exists()).collect();
    for path in missing.into_iter().rev() {
        match DirBuilder::new().mode(0o700).create(path) {
            // The umask may have removed bits without which nothing can be created in it.
            Ok(()) if path.symlink_metadata()?.mode() & 0o700 != 0o700 => {
                std::fs::set_permissions(path, Permissions::from_mode(0o700))?;
            }
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Checks the file system of a directory that may have yet to be created.
fn check_file_system(directory: &Path) -> Result<(), FileError> {
    directory.ancestors().find(|above| above.exists()).map_or(Ok(()), file_system::check)
}

/// The first of a directory and those above it that exists.
fn first_there(directory: &Path) -> Result<Option<&Path>, FileError> {
    for path in directory.ancestors() {
        match path.metadata() {
            Ok(_) => return Ok(Some(path)),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(FileError::io("look at", path, &error)),
        }
    }
    Ok(None)
}

/// Refuses a file or directory that the user of this process may not write.
fn may_write(path: &Path) -> Result<(), FileError> {
    let access = if path.is_dir() { Access::WRITE_OK | Access::EXEC_OK } else { Access::WRITE_OK };
    accessat(CWD, path, access, AtFlags::EACCESS)
        .map_err(|error| FileError::io("write to", path, &error.into()))
}

fn check_directory(directory: &Path) -> Result<Users, FileError> {
    let found = directory.metadata().map_err(|error| FileError::io("look at", directory, &error))?;
    let users = Users::of(&found);
    let (at, mode) = (directory.display(), found.mode() & 0o7777);
    let refused = match users {
        _ if !found.is_dir() => format!("{at} is not a directory: use another path"),
        Users::One if !users.own(&found) => format!(
            "the directory {at} belongs to user {}: use one of your own, or one that root made for a group by `leasehold init`",
            found.uid()
        ),
        Users::One if mode & users.forbidden() != 0 && mode & 0o1000 != 0 => format!(
            "the directory {at} can be written by others (mode {mode:04o}), who may need that: use another, such as one in it"
        ),
        Users::One if mode & users.forbidden() != 0 => format!(
            "the directory {at} can be written by others (mode {mode:04o}): run chmod 700 on it, or use another"
        ),
        Users::One if mode & 0o300 != 0o300 => {
            format!("the directory {at} is read-only (mode {mode:04o}): run chmod 700 on it")
        }
        Users::Group { owner, .. } if owner != 0 && owner != own_user() => format!(
            "the directory {at} belongs to user {owner}, who could replace all that is in it: root makes a store for a group, by \
             `leasehold init`"
        ),
        Users::Group { .. } if mode & users.forbidden() != 0 || mode & 0o1070 != 0o1070 => format!(
            "the directory {at} is not as one for a group must be (mode {mode:04o}): run chmod {:o} on it",
            users.directory_mode()
        ),
        Users::Group { group, .. } if is_denied(directory) => format!(
            "user {} is not in group {group}, for which the directory {at} was made: have the user added to the group, and log in again",
            own_user()
        ),
        _ if is_mounted_read_only(directory) => {
            format!("the directory {at} lies on a read-only file system: use another, or mount it writable")
        }
        _ => return Ok(users),
    };
    Err(FileError::lasting(refused))
}

fn is_denied(directory: &Path) -> bool {
    let all = Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK;
    accessat(CWD, directory, all, AtFlags::EACCESS) == Err(Errno::ACCESS)
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
        assert_eq!(DbPath::new(Path::new("a.db")).path(), here.join("a.db"));
        assert_eq!(DbPath::new(Path::new("/x/a\nb.db")).name(), "file:/x/a\\nb.db");
    }

    #[test]
    fn a_path_without_a_file_is_refused() {
        for path in ["", "/", "/tmp/..", "/tmp/x/"] {
            let fault = DbPath::new(Path::new(path)).prepare().unwrap_err().of("file:");
            assert_eq!(&*fault.reason, "the path names no file: give the path of a file", "{path}");
        }
    }

    #[test]
    fn the_next_change_shows_only_after_a_while_and_where_times_are_exact() {
        let state = |ago: Duration, nanos: u32| {
            let changed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap() - ago;
            let directory = FileId { device: 1, inode: 1 };
            DirectoryState { directory, changed: (changed.as_secs() as i64, nanos.into()) }
        };
        let long_ago = Duration::from_secs(5);
        assert!(state(long_ago, 1).is_settled());
        assert!(!state(long_ago, 0).is_settled() && !state(long_ago, 7_000_000).is_settled());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().subsec_nanos() | 1;
        assert!(!state(Duration::ZERO, now).is_settled(), "or the second is over");
    }
}
