//! The others that use a file: which of them live, and what can be said to them.
//!
//! Every store that asks for leases has a file of its own in a directory beside the database, and keeps an `flock` on it; the rows
//! of its locks name that file. The kernel frees the lock when the last copy of the descriptor is closed, however that came:
//! so whoever can lock the file knows that nobody is left to hold those leases, and they count as ended.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use leasehold_core::{Channel, Ears};
use rustix::fs::{FlockOperation, OFlags, flock};

/// The name of one store that uses the file; drawn by chance, and never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Peer([u8; 8]);

impl Peer {
    /// The name that nobody has, and all have whose names were forgotten after their death.
    pub(crate) const NOBODY: Self = Self([0; 8]);

    pub(crate) const fn from_bytes(bytes: [u8; 8]) -> Self {
        Self(bytes)
    }

    pub(crate) const fn as_bytes(&self) -> &[u8; 8] {
        &self.0
    }

    pub(crate) fn channel(self) -> Channel {
        Channel::new(self.0)
    }

    fn of(channel: &Channel) -> Option<Self> {
        channel.as_bytes().try_into().ok().map(Self)
    }

    fn life(self) -> String {
        format!("{:016x}", u64::from_be_bytes(self.0))
    }

    fn socket(self) -> String {
        format!("{:016x}.s", u64::from_be_bytes(self.0))
    }
}

/// The directory of those who use a file, and this store's own entry there.
#[derive(Debug)]
pub(crate) struct Peers {
    directory: PathBuf,
    /// So that a socket can be named by a short path, however long the directory's own is.
    handle: OnceLock<File>,
    own: Mutex<Option<Own>>,
    /// What others are told through.
    mouth: OnceLock<UnixDatagram>,
    process: u32,
}

#[derive(Debug)]
struct Own {
    name: Peer,
    life: File,
    has_ear: bool,
}

/// Somebody who is dead for certain; while this lives, nobody else buries it.
#[derive(Debug)]
pub(crate) struct Dead {
    pub(crate) name: Peer,
    _life: File,
}

impl Peers {
    /// Those who use the file at a path. Makes nothing yet.
    pub(crate) fn beside(file: &Path) -> Self {
        let mut directory = file.as_os_str().to_owned();
        directory.push("-peers");
        Self {
            directory: directory.into(),
            handle: OnceLock::new(),
            own: Mutex::default(),
            mouth: OnceLock::new(),
            process: process::id(),
        }
    }

    /// This store's name, if it has one yet.
    pub(crate) fn own(&self) -> Option<Peer> {
        self.entry().as_ref().map(|own| own.name)
    }

    /// Enters this store among the living. `random` names it.
    pub(crate) fn enter(&self, random: u128) -> io::Result<()> {
        let mut entry = self.entry();
        if entry.is_some() {
            return Ok(());
        }
        self.open_directory()?;
        let mut name = random as u64 ^ (random >> 64) as u64;
        // Only a runtime whose dice are loaded meets a name that there is.
        for _ in 0..1000 {
            let peer = Peer(name.max(1).to_be_bytes());
            match self.live_as(peer) {
                Ok(Some(life)) => {
                    *entry = Some(Own { name: peer, life, has_ear: false });
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

    /// Creates and locks a file. `None` when it was taken for a dead one's between the two, and removed.
    fn live_as(&self, peer: Peer) -> io::Result<Option<File>> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let life = options.open(self.directory.join(peer.life()))?;
        // Whoever tries whether it is free has it for a moment only.
        flock(&life, FlockOperation::LockExclusive)?;
        Ok((life.metadata()?.nlink() > 0).then_some(life))
    }

    /// A copy of the descriptor that this store's leases hang on.
    pub(crate) fn lifeline(&self) -> Option<OwnedFd> {
        self.entry().as_ref().and_then(|own| own.life.as_fd().try_clone_to_owned().ok())
    }

    /// Where this store hears what it is told. Once only.
    pub(crate) fn open_ear(&self) -> io::Result<UnixDatagram> {
        let mut entry = self.entry();
        let own = entry.as_mut().ok_or(ErrorKind::NotFound)?;
        let ear = UnixDatagram::bind(self.address(own.name)?)?;
        own.has_ear = true;
        Ok(ear)
    }

    /// Whether nobody is left who could hold the leases of this one. What cannot be told is not so: then they last until their
    /// ends.
    pub(crate) fn is_dead(&self, peer: Peer) -> bool {
        if peer == Peer::NOBODY {
            return true;
        }
        let flags = OFlags::NOFOLLOW.bits().cast_signed();
        let life = OpenOptions::new().read(true).custom_flags(flags).open(self.directory.join(peer.life()));
        // Shared, so that two who look at once do not take each other for the living.
        life.is_ok_and(|life| flock(&life, FlockOperation::NonBlockingLockShared).is_ok())
    }

    /// The dead of whom something is left in the directory; not more than a few at a time.
    pub(crate) fn dead(&self) -> Vec<Dead> {
        const AT_ONCE: usize = 64;
        let Ok(entries) = self.directory.read_dir() else { return Vec::new() };
        let names = entries.filter_map(|entry| {
            let name = entry.ok()?.file_name();
            let number = u64::from_str_radix(name.to_str().filter(|name| name.len() == 16)?, 16).ok()?;
            Some(Peer(number.to_be_bytes()))
        });
        let dead = names.filter_map(|name| {
            let life = OpenOptions::new().read(true).open(self.directory.join(name.life())).ok()?;
            flock(&life, FlockOperation::NonBlockingLockExclusive).ok()?;
            Some(Dead { name, _life: life })
        });
        dead.take(AT_ONCE).collect()
    }

    /// Removes what is left of somebody dead. Only once no row hangs on that life any more: a life that cannot be found is taken
    /// for one that lasts.
    pub(crate) fn bury(&self, dead: &Dead) {
        self.remove(dead.name, true);
    }

    /// Says something to another. A full ear counts as told: whoever has it looks for itself before long.
    pub(crate) fn tell(&self, channel: &Channel, message: &[u8]) -> bool {
        let Some(peer) = Peer::of(channel) else { return false };
        let (Ok(address), Some(mouth)) = (self.address(peer), self.mouth()) else { return false };
        mouth.send_to(message, address).is_ok()
    }

    fn remove(&self, peer: Peer, ear: bool) {
        if ear {
            let _ = std::fs::remove_file(self.directory.join(peer.socket()));
        }
        let _ = std::fs::remove_file(self.directory.join(peer.life()));
    }

    /// This store goes. If no lease hangs on it any more there is nothing to be found out from its file, which is removed;
    /// else it stays for whoever finds out.
    pub(crate) fn go(&self, holds_something: bool) {
        // What was forked from this process has copies of all of it, and is somebody else.
        if self.process != process::id() {
            return;
        }
        let Some(own) = self.entry().take() else { return };
        if own.has_ear {
            let _ = std::fs::remove_file(self.directory.join(own.name.socket()));
        }
        if !holds_something {
            self.remove(own.name, false);
        }
    }

    fn open_directory(&self) -> io::Result<&File> {
        if let Some(handle) = self.handle.get() {
            return Ok(handle);
        }
        match DirBuilder::new().mode(0o700).create(&self.directory) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW;
        let handle =
            OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(&self.directory)?;
        let found = handle.metadata()?;
        // Whoever could write there could feign anybody's life.
        if found.uid() != rustix::process::geteuid().as_raw() || found.mode() & 0o022 != 0 {
            return Err(ErrorKind::PermissionDenied.into());
        }
        Ok(self.handle.get_or_init(|| handle))
    }

    /// A path of a socket that is short enough for its address.
    fn address(&self, peer: Peer) -> io::Result<PathBuf> {
        /// `sun_path` has 108 bytes, and ends with a zero.
        const LONGEST: usize = 107;
        let plain = self.directory.join(peer.socket());
        if plain.as_os_str().as_bytes().len() <= LONGEST {
            return Ok(plain);
        }
        let handle = self.open_directory()?.as_raw_fd();
        Ok(format!("/proc/self/fd/{handle}/{}", peer.socket()).into())
    }

    fn mouth(&self) -> Option<&UnixDatagram> {
        if self.mouth.get().is_none() {
            let mouth = UnixDatagram::unbound().ok()?;
            mouth.set_nonblocking(true).ok()?;
            let _ = self.mouth.set(mouth);
        }
        self.mouth.get()
    }

    fn entry(&self) -> MutexGuard<'_, Option<Own>> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        // Nobody knows here whether all that was granted has been released.
        self.go(true);
    }
}

/// A socket whose process is gone refuses to be connected to.
impl Ears for Peers {
    fn listens(&self, channel: &Channel) -> bool {
        let Some(peer) = Peer::of(channel) else { return false };
        if self.own() == Some(peer) {
            return true;
        }
        let Ok(address) = self.address(peer) else { return true };
        let Some(mouth) = self.mouth() else { return true };
        match mouth.connect(address) {
            Err(error) => !matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::NotFound),
            Ok(()) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two() -> (tempfile::TempDir, [Peers; 2]) {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("leases.db");
        (directory, [Peers::beside(&file), Peers::beside(&file)])
    }

    #[test]
    fn a_life_lasts_until_the_last_copy_of_its_descriptor_is_closed() {
        let (_directory, [one, other]) = two();
        one.enter(1).unwrap();
        other.enter(1).unwrap();
        let name = one.own().unwrap();
        assert!(other.own() != Some(name) && !other.is_dead(name));
        let copy = one.lifeline().unwrap();
        one.go(true);
        assert!(!other.is_dead(name) && other.dead().is_empty());
        drop(copy);
        assert!(other.is_dead(name));
    }

    #[test]
    fn the_dead_are_buried_once_and_what_cannot_be_found_counts_as_alive() {
        let (_directory, [one, other]) = two();
        one.enter(1).unwrap();
        let name = one.own().unwrap();
        one.open_ear().unwrap();
        one.go(true);
        let found = other.dead();
        assert_eq!(found.iter().map(|dead| dead.name).collect::<Vec<_>>(), [name]);
        assert!(other.dead().is_empty(), "two bury one");
        found.iter().for_each(|dead| other.bury(dead));
        drop(found);
        assert!(!other.is_dead(name) && other.directory.read_dir().unwrap().next().is_none());
    }

    #[test]
    fn only_who_has_an_ear_open_listens_however_long_the_path() {
        for deep in [1, 300] {
            let directory = tempfile::tempdir().unwrap();
            let below = directory.path().join("d".repeat(deep.min(200))).join("e".repeat(deep.min(200)));
            std::fs::create_dir_all(&below).unwrap();
            let [one, other] = [1, 2].map(|_| Peers::beside(&below.join("leases.db")));
            one.enter(1).unwrap();
            other.enter(2).unwrap();
            let channel = one.own().unwrap().channel();
            assert!(!other.listens(&channel));
            let ear = one.open_ear().unwrap();
            assert!(other.listens(&channel) && other.tell(&channel, b"news"));
            let mut heard = [0; 8];
            assert_eq!(ear.recv(&mut heard).unwrap(), 4);
            drop(ear);
            assert!(!other.listens(&channel), "the socket is still there, and nobody behind it");
        }
    }
}
