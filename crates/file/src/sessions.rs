//! The sessions of a file: the processes that use it now, and how each is notified.
//!
//! Every store that requests leases has a session: a file in a directory next to the database, on
//! which it holds an `flock`, and which the rows of its locks name. The kernel releases that when
//! the last copy of the descriptor is closed. So whoever can lock the file knows that those leases
//! have ended.

#[cfg_attr(target_os = "linux", path = "sessions/linux.rs")]
#[cfg_attr(not(target_os = "linux"), path = "sessions/bsd.rs")]
mod kernel;

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Read as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

use leasehold_core::{Channel, Subscribers, locked};
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

use crate::boot::BootId;
use crate::census::FileId;
use crate::db_path::{directory_of_sessions, make_directory_of_sessions};
use crate::logs::Logs;
use crate::users::Users;

/// The name of one session; random, and never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Session([u8; 8]);

impl Session {
    /// The name that no session has. It replaces the names of ended sessions that were removed.
    pub(crate) const NOBODY: Self = Self([0; 8]);

    /// With the highest bit, so that this is not `NOBODY`, and its channel is not a silent one.
    const fn named(bits: u64) -> Self {
        Self((bits | 1 << 63).to_be_bytes())
    }

    pub(crate) const fn from_bytes(bytes: [u8; 8]) -> Self {
        Self(bytes)
    }

    pub(crate) const fn as_bytes(&self) -> &[u8; 8] {
        &self.0
    }

    pub(crate) fn channel(self) -> Channel {
        Channel::new(self.0)
    }

    pub(crate) fn of(channel: &Channel) -> Option<Self> {
        channel.as_bytes().try_into().ok().map(Self)
    }

    fn lock_name(self) -> String {
        format!("{:016x}", u64::from_be_bytes(self.0))
    }

    fn socket_name(self) -> String {
        format!("{:016x}.s", u64::from_be_bytes(self.0))
    }
}

/// A session's description of its process for later users of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SessionRecord {
    pub(crate) pid: u32,
    pub(crate) boot: Option<BootId>,
    /// The log that its connection writes to, while it has one.
    pub(crate) logs: Option<Logs>,
}

impl SessionRecord {
    fn write(&self) -> String {
        let boot = self.boot.as_ref().map(|boot| format!("boot {boot}\n")).unwrap_or_default();
        let logs = self.logs.as_ref().map(|logs| format!("logs {logs}\n")).unwrap_or_default();
        let text = format!("pid {}\n{boot}{logs}", self.pid);
        // A shorter text overwrites a longer one in one write.
        format!("{text:width$}", width = Self::LENGTH)
    }

    fn read(text: &str) -> Self {
        let mut record = Self::default();
        for (name, value) in text.lines().filter_map(|line| line.split_once(' ')) {
            match name {
                "pid" => record.pid = value.parse().unwrap_or(0),
                "boot" => record.boot = Some(BootId::new(value)),
                "logs" => record.logs = Logs::read(value),
                _ => {}
            }
        }
        record
    }

    /// Longer than any text.
    const LENGTH: usize = 256;
}

/// The sessions of a file, including this store's own.
#[derive(Debug)]
pub(crate) struct Sessions {
    directory: PathBuf,
    /// A descriptor of the directory, so that a socket has a short path.
    handle: Mutex<Option<Arc<File>>>,
    users: OnceLock<Users>,
    own: Mutex<OwnSession>,
    sender: OnceLock<UnixDatagram>,
    process: u32,
}

#[derive(Debug, Default)]
struct OwnSession {
    record: SessionRecord,
    entry: Option<Entry>,
    /// The locks of earlier sessions, which were lost.
    lost: Vec<File>,
    /// True if somebody has a copy of such a lock, or of this session's.
    is_lent: bool,
}

#[derive(Debug)]
struct Entry {
    name: Session,
    lock: File,
}

/// Sessions that have certainly ended; while this value lives, nobody else removes any.
#[derive(Debug, Default)]
pub(crate) struct DeadSessions {
    found: Vec<(Session, File)>,
    /// The directory, on which this has a lock.
    _turn: Option<File>,
}

impl DeadSessions {
    pub(crate) fn names(&self) -> impl ExactSizeIterator<Item = Session> {
        self.found.iter().map(|(name, _)| *name)
    }
}

impl Sessions {
    /// The sessions of the file at a path. This creates nothing.
    pub(crate) fn of_file(file: &Path) -> Self {
        Self {
            directory: directory_of_sessions(file),
            handle: Mutex::default(),
            users: OnceLock::new(),
            own: Mutex::default(),
            sender: OnceLock::new(),
            process: process::id(),
        }
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// True in a forked child of the process that made this.
    pub(crate) fn is_inherited(&self) -> bool {
        self.process != process::id()
    }

    pub(crate) fn own(&self) -> Option<Session> {
        locked(&self.own).entry.as_ref().map(|entry| entry.name)
    }

    pub(crate) fn uses(&self, users: Users, boot: BootId, logs: Logs) {
        let _ = self.users.set(users);
        self.say(SessionRecord { pid: self.process, boot: Some(boot), logs: Some(logs) });
    }

    /// Records that this store has closed its connection, or is about to.
    pub(crate) fn uses_no_log(&self) {
        let boot = locked(&self.own).record.boot.clone();
        self.say(SessionRecord { pid: self.process, boot, logs: None });
    }

    fn say(&self, record: SessionRecord) {
        if self.is_inherited() {
            return;
        }
        let mut own = locked(&self.own);
        if let Some(entry) = own.entry.as_ref().filter(|_| own.record != record) {
            // If others cannot read it, this session counts as one without a record.
            let _ = entry.lock.write_all_at(record.write().as_bytes(), 0);
        }
        own.record = record;
    }

    /// Starts this store's session, with a random name. After a lost session of whose lock somebody
    /// has a copy, there is none: leases are to last for as long as that copy, or until their ends.
    pub(crate) fn enter(&self, random: u128) -> io::Result<()> {
        let mut own = locked(&self.own);
        if own.entry.is_some() {
            return Ok(());
        }
        if own.is_lent {
            return Err(ErrorKind::Unsupported.into());
        }
        self.open_directory()?;
        let mut name = random as u64 ^ (random >> 64) as u64;
        // Only a faulty source of randomness produces a name that exists.
        for _ in 0..1000 {
            let session = Session::named(name);
            match self.lock_new(session, &own.record) {
                Ok(Some(lock)) => {
                    own.entry = Some(Entry { name: session, lock });
                    return Ok(());
                }
                Ok(None) => {}
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
            name = name.wrapping_add(1);
        }
        Err(ErrorKind::AlreadyExists.into())
    }

    /// True if nobody finds this store's session in the directory any more.
    pub(crate) fn is_lost(&self) -> bool {
        locked(&self.own).entry.as_ref().is_some_and(|entry| self.lacks(entry))
    }

    fn lacks(&self, entry: &Entry) -> bool {
        match self.directory.join(entry.name.lock_name()).symlink_metadata() {
            Ok(found) => entry.lock.metadata().is_ok_and(|lock| FileId::of(&lock) != FileId::of(&found)),
            Err(error) => error.kind() == ErrorKind::NotFound,
        }
    }

    /// Ends this store's session if it is lost. Returns true if it did.
    pub(crate) fn leave_if_lost(&self) -> bool {
        let mut own = locked(&self.own);
        let Some(lost) = own.entry.take_if(|entry| self.lacks(entry)) else { return false };
        // The directory may come back while a lease of this process lasts that is in its file.
        own.lost.push(lost.lock);
        *locked(&self.handle) = None;
        true
    }

    /// Creates and locks a file. `None` if somebody took it for that of a dead session in between.
    fn lock_new(&self, session: Session, record: &SessionRecord) -> io::Result<Option<File>> {
        let mode = self.users().session_mode();
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(mode);
        let lock = options.open(self.directory.join(session.lock_name()))?;
        // The umask may have removed bits.
        let is_locked = lock
            .set_permissions(Permissions::from_mode(mode))
            .and_then(|()| lock.write_all_at(record.write().as_bytes(), 0))
            .and_then(|()| lock_for_life(&lock));
        if !matches!(is_locked, Ok(true)) {
            self.remove(session.lock_name());
        }
        Ok(is_locked?.then_some(lock))
    }

    /// A copy of the descriptor on which this store's leases depend.
    pub(crate) fn lifeline(&self) -> Option<OwnedFd> {
        let mut own = locked(&self.own);
        let copy = own.entry.as_ref()?.lock.as_fd().try_clone_to_owned().ok()?;
        own.is_lent = true;
        Some(copy)
    }

    /// The socket of this store. To be called once for each session.
    pub(crate) fn open_socket(&self) -> io::Result<UnixDatagram> {
        let name = self.own().ok_or(ErrorKind::NotFound)?.socket_name();
        let socket = UnixDatagram::bind(self.short_path(&name)?)?;
        if let Some(mode) = self.users().socket_mode() {
            // Through a descriptor: another user may have replaced it, and the other file must not
            // get this mode.
            let socket = kernel::Pinned::at(&self.directory.join(name))?;
            std::fs::set_permissions(socket.path(), Permissions::from_mode(mode))?;
        }
        Ok(socket)
    }

    /// True if nobody is left who could hold the leases of a session; false if that is unknown.
    pub(crate) fn is_dead(&self, session: Session) -> bool {
        session == Session::NOBODY || self.lock_dead(session).is_some()
    }

    /// Locks the file of a session that is dead; `None` if it may be alive. The lock is shared, so
    /// that two concurrent checks do not take each other for the holder.
    fn lock_dead(&self, session: Session) -> Option<File> {
        let lock = self.open_lock(session).ok()?;
        flock(&lock, FlockOperation::NonBlockingLockShared).ok().map(|()| lock)
    }

    /// The dead sessions with files in the directory; a few at a time, and none while others have
    /// some.
    pub(crate) fn dead(&self) -> DeadSessions {
        const AT_ONCE: usize = 64;
        let turn = File::open(&self.directory).ok();
        let turn = turn.filter(|turn| flock(turn, FlockOperation::NonBlockingLockExclusive).is_ok());
        if turn.is_none() {
            return DeadSessions::default();
        }
        let dead = self.all().filter_map(|name| Some((name, self.lock_dead(name)?)));
        DeadSessions { found: dead.take(AT_ONCE).collect(), _turn: turn }
    }

    /// The number of all dead sessions with files in the directory.
    pub(crate) fn count_dead(&self) -> usize {
        self.all().filter(|name| self.is_dead(*name)).count()
    }

    /// The records of the other live sessions.
    pub(crate) fn others(&self) -> impl Iterator<Item = (Session, SessionRecord)> {
        let own = self.own();
        self.all().filter(move |name| own != Some(*name)).filter_map(|name| {
            let lock = self.open_lock(name).ok()?;
            let error = flock(&lock, FlockOperation::NonBlockingLockShared).err()?;
            let mut text = String::new();
            if error != Errno::WOULDBLOCK {
                return None;
            }
            lock.take(SessionRecord::LENGTH as u64).read_to_string(&mut text).ok()?;
            Some((name, SessionRecord::read(text.trim_end())))
        })
    }

    fn all(&self) -> impl Iterator<Item = Session> {
        self.directory.read_dir().into_iter().flatten().filter_map(|entry| {
            let name = entry.ok()?.file_name();
            let number = u64::from_str_radix(name.to_str().filter(|name| name.len() == 16)?, 16).ok()?;
            Some(Session(number.to_be_bytes()))
        })
    }

    fn open_lock(&self, session: Session) -> io::Result<File> {
        // If several users share the directory, one may have put a link or a pipe there.
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(flags.bits().cast_signed());
        options.open(self.directory.join(session.lock_name()))
    }

    /// Removes the files of dead sessions, on which no row depends any more.
    pub(crate) fn reap(&self, dead: &DeadSessions) {
        for name in dead.names() {
            self.remove(name.socket_name());
            self.remove(name.lock_name());
        }
    }

    /// Sends a message to another session. If it is lost, its owner checks before long.
    pub(crate) fn tell(&self, channel: &Channel, message: &[u8]) {
        let (Some(session), Some(sender)) = (Session::of(channel), self.sender()) else { return };
        if let Ok((address, _pinned)) = self.address(session) {
            let _ = sender.send_to(message, address);
        }
    }

    /// Makes another session check whether its log is still the file's.
    pub(crate) fn wake(&self, session: Session) {
        self.tell(&session.channel(), &[]);
    }

    /// The address of a session's socket, which is valid while the second value lives.
    fn address(&self, session: Session) -> io::Result<(PathBuf, Option<kernel::Pinned>)> {
        let name = session.socket_name();
        if self.users().socket_mode().is_none() {
            return Ok((self.short_path(&name)?, None));
        }
        // Not by its name, which may lead to a socket to which only this user may write.
        let pinned = kernel::Pinned::at(&self.directory.join(name))?;
        Ok((pinned.path(), Some(pinned)))
    }

    fn remove(&self, name: impl AsRef<Path>) {
        let _ = std::fs::remove_file(self.directory.join(name));
    }

    /// Ends this store's session. Its file is kept if a lease depends on it, to show that it has
    /// ended.
    pub(crate) fn leave(&self, holds_something: bool) {
        if self.is_inherited() {
            return;
        }
        let Some(entry) = locked(&self.own).entry.take() else { return };
        self.remove(entry.name.socket_name());
        if !holds_something {
            self.remove(entry.name.lock_name());
        }
    }

    fn open_directory(&self) -> io::Result<Arc<File>> {
        let mut handle = locked(&self.handle);
        if let Some(handle) = &*handle {
            return Ok(Arc::clone(handle));
        }
        let made = Arc::new(make_directory_of_sessions(&self.directory, self.users())?);
        *handle = Some(Arc::clone(&made));
        Ok(made)
    }

    /// A path in the directory that is short enough for the address of a socket.
    fn short_path(&self, name: &str) -> io::Result<PathBuf> {
        let plain = self.directory.join(name);
        if plain.as_os_str().as_bytes().len() <= kernel::LONGEST_ADDRESS {
            return Ok(plain);
        }
        kernel::short_path(&*self.open_directory()?, name)
    }

    fn sender(&self) -> Option<&UnixDatagram> {
        if self.sender.get().is_none() {
            let sender = UnixDatagram::unbound().ok()?;
            sender.set_nonblocking(true).ok()?;
            let _ = self.sender.set(sender);
        }
        self.sender.get()
    }

    fn users(&self) -> Users {
        self.users.get().copied().unwrap_or(Users::One)
    }
}

/// Locks the file of a new session; returns false if somebody took it for that of a dead one.
fn lock_for_life(lock: &File) -> io::Result<bool> {
    /// A check of whether it is free holds the lock only for a moment, but another user could keep it.
    const TRIES: u32 = 50;
    for _ in 0..TRIES {
        match flock(lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(lock.metadata()?.nlink() > 0),
            Err(Errno::WOULDBLOCK | Errno::INTR) => thread::sleep(Duration::from_millis(1)),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(false)
}

impl Drop for Sessions {
    fn drop(&mut self) {
        // It is unknown here whether all grants have been released.
        self.leave(true);
    }
}

/// A socket whose process is gone refuses connections.
impl Subscribers for Sessions {
    fn listens(&self, channel: &Channel) -> bool {
        let Some(session) = Session::of(channel) else { return false };
        if self.own() == Some(session) {
            return true;
        }
        // By a socket of its own: on macOS and FreeBSD, one that is connected sends to nobody else.
        let connected =
            self.address(session).and_then(|(address, _pinned)| UnixDatagram::unbound()?.connect(address));
        !connected
            .is_err_and(|error| matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::NotFound))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two() -> (tempfile::TempDir, [Sessions; 2]) {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("leases.db");
        (directory, [Sessions::of_file(&file), Sessions::of_file(&file)])
    }

    /// Regression: the doctor found 64 at most, which is how many are removed at a time.
    #[test]
    fn all_dead_sessions_are_counted() {
        let directory = tempfile::tempdir().unwrap();
        let sessions = || Sessions::of_file(&directory.path().join("leases.db"));
        (0..70).for_each(|name| sessions().enter(name).unwrap());
        assert_eq!((sessions().count_dead(), sessions().dead().names().len()), (70, 64));
    }

    #[test]
    fn a_session_lasts_until_the_last_copy_of_its_descriptor_is_closed() {
        let (_directory, [one, other]) = two();
        one.enter(1).unwrap();
        other.enter(1).unwrap();
        let name = one.own().unwrap();
        assert!(other.own() != Some(name) && !other.is_dead(name));
        let copy = one.lifeline().unwrap();
        one.leave(true);
        assert!(!other.is_dead(name) && other.dead().names().next().is_none());
        drop(copy);
        assert!(other.is_dead(name));
    }

    #[test]
    fn a_dead_session_is_reaped_once_and_what_cannot_be_found_counts_as_alive() {
        let (_directory, [one, other]) = two();
        one.enter(1).unwrap();
        let name = one.own().unwrap();
        one.open_socket().unwrap();
        one.leave(true);
        let found = other.dead();
        assert_eq!(found.names().collect::<Vec<_>>(), [name]);
        assert!(other.dead().names().next().is_none(), "two reap one");
        assert!(other.is_dead(name) && other.others().count() == 0, "it is dead for everybody meanwhile");
        other.reap(&found);
        drop(found);
        assert!(!other.is_dead(name) && other.directory.read_dir().unwrap().next().is_none());
    }

    /// Others lock the file that they find, and take the session for dead.
    #[test]
    fn a_session_is_lost_when_its_file_is_removed_or_another_one_is_in_its_place() {
        for is_replaced in [false, true] {
            let (_directory, [one, other]) = two();
            one.enter(1).unwrap();
            let name = one.own().unwrap();
            assert!(!one.is_lost() && !one.leave_if_lost());
            let file = one.directory.join(name.lock_name());
            std::fs::remove_file(&file).unwrap();
            if is_replaced {
                File::create(&file).unwrap();
            }
            assert_eq!(other.is_dead(name), is_replaced);
            assert!(one.is_lost() && one.leave_if_lost() && one.own().is_none());
        }
    }

    #[test]
    fn a_file_that_cannot_be_locked_at_all_is_not_tried_again() {
        let directory = tempfile::tempdir().unwrap();
        let open = |flags: OFlags| {
            let mut options = OpenOptions::new();
            options.read(true).custom_flags(flags.bits().cast_signed()).open(directory.path()).unwrap()
        };
        let (one, other) = (open(OFlags::empty()), open(OFlags::empty()));
        assert!(lock_for_life(&one).unwrap() && !lock_for_life(&other).unwrap());
        // The system refuses a lock on such a descriptor, as some file systems do on every one.
        lock_for_life(&open(OFlags::PATH)).unwrap_err();
    }

    #[test]
    fn only_a_session_with_an_open_socket_listens_however_long_the_path() {
        for deep in [1, 300] {
            let directory = tempfile::tempdir().unwrap();
            let below = directory.path().join("d".repeat(deep.min(200))).join("e".repeat(deep.min(200)));
            std::fs::create_dir_all(&below).unwrap();
            let [one, other] = [1, 2].map(|_| Sessions::of_file(&below.join("leases.db")));
            one.enter(1).unwrap();
            other.enter(2).unwrap();
            let channel = one.own().unwrap().channel();
            assert!(!other.listens(&channel));
            let socket = one.open_socket().unwrap();
            assert!(other.listens(&channel));
            other.tell(&channel, b"news");
            let mut heard = [0; 8];
            assert_eq!(socket.recv(&mut heard).unwrap(), 4);
            drop(socket);
            assert!(!other.listens(&channel), "the socket is still there, and nobody behind it");
        }
    }

    #[test]
    fn every_session_can_be_notified_and_is_somebody() {
        for first in 0..=u8::MAX {
            let (_directory, [one, _]) = two();
            one.enter(u128::from(first) << 56).unwrap();
            let name = one.own().unwrap();
            assert!(!name.channel().is_silent() && name != Session::NOBODY, "{name:?}");
        }
    }

    #[test]
    fn a_session_that_lives_says_what_it_uses_and_a_dead_one_nothing() {
        let (directory, [one, other]) = two();
        let logs = Logs::read("1:2 3:4").unwrap();
        one.uses(Users::One, BootId::new("a boot"), logs);
        one.enter(1).unwrap();
        let said = || other.others().map(|(_, record)| record).collect::<Vec<_>>();
        let expected =
            SessionRecord { pid: process::id(), boot: Some(BootId::new("a boot")), logs: Some(logs) };
        assert_eq!(said(), std::slice::from_ref(&expected));
        assert_eq!(one.others().count(), 0, "it is not another one than itself");
        one.uses_no_log();
        assert_eq!(said(), [SessionRecord { logs: None, ..expected }]);
        one.leave(true);
        assert_eq!(said(), []);
        drop(directory);
    }
}
