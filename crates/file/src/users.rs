//! The users of a store: one user, or those of a group.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;

/// The mode bits that let others than the owner write.
const OTHERS_WRITE: u32 = 0o022;
/// The mode of a group store's directory: new files belong to the group, and users remove only
/// their own.
const SHARED: u32 = 0o3070;

/// The users of a store, as given by its directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Users {
    One,
    /// The users of a group, which the owner of the directory chose: root, or the user of this
    /// process.
    Group {
        /// The owner of the directory, and of everything in it that must not be replaced.
        owner: u32,
        group: u32,
    },
}

impl Users {
    /// The users for whom a directory was made. This does not check the directory in other ways.
    pub(crate) fn of(directory: &Metadata) -> Self {
        // New files in it get the directory's group, and the group may write to it.
        if directory.mode() & 0o2020 == 0o2020 {
            Self::Group { owner: directory.uid(), group: directory.gid() }
        } else {
            Self::One
        }
    }

    /// Returns true if nobody else can write to this file or directory.
    pub(crate) fn may_write(self, found: &Metadata) -> bool {
        self.own(found) && found.mode() & self.forbidden() == 0
    }

    /// Returns true if a file or a directory has the required owner.
    pub(crate) fn own(self, found: &Metadata) -> bool {
        match self {
            Self::One => found.uid() == own_user(),
            Self::Group { owner, group } => found.uid() == owner && found.gid() == group,
        }
    }

    /// The mode bits that would let others than these users write.
    pub(crate) fn forbidden(self) -> u32 {
        self.one_or_group(OTHERS_WRITE, OTHERS_WRITE & 0o007)
    }

    pub(crate) fn file_mode(self) -> u32 {
        self.one_or_group(0o600, 0o660)
    }

    pub(crate) fn directory_mode(self) -> u32 {
        self.one_or_group(0o700, SHARED | 0o700)
    }

    /// Without the sticky bit: whoever finds a dead session removes it.
    pub(crate) fn session_directory_mode(self) -> u32 {
        self.one_or_group(0o700, 0o2770)
    }

    /// The mode of a session's file: others may only see whether it is locked, and read it.
    pub(crate) fn session_mode(self) -> u32 {
        self.one_or_group(0o600, 0o640)
    }

    /// The mode of its socket, if it differs from the one with which it is created.
    pub(crate) fn socket_mode(self) -> Option<u32> {
        self.one_or_group(None, Some(0o660))
    }

    fn one_or_group<T>(self, one: T, group: T) -> T {
        match self {
            Self::One => one,
            Self::Group { .. } => group,
        }
    }
}

pub(crate) fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}
