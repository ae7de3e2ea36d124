//! Who may use a store: one user, or those of a group.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;

/// The bits by which others than the owner could write.
const OTHERS_WRITE: u32 = 0o022;
/// What the directory of a group's store has: the group's for all that is made in it, and nobody removes what is another's.
const SHARED: u32 = 0o3070;

/// Whose a store is, by its directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Users {
    /// The user who runs this process.
    One,
    /// Those of a group, which the owner of the directory chose: root, or who runs this process.
    Group {
        /// The owner of the directory, and of all that must not be replaced in it.
        owner: u32,
        /// The group.
        group: u32,
    },
}

impl Users {
    /// Those for whom a directory was made. What else may be wrong with it is not looked at.
    pub(crate) fn of(directory: &Metadata) -> Self {
        // The group of all that is made there is the directory's own, and it may write there.
        if directory.mode() & 0o2020 == 0o2020 {
            Self::Group { owner: directory.uid(), group: directory.gid() }
        } else {
            Self::One
        }
    }

    /// Whether nobody else can write to a file or a directory of theirs.
    pub(crate) fn may_write(self, found: &Metadata) -> bool {
        self.own(found) && found.mode() & self.forbidden() == 0
    }

    /// Whether a file or a directory belongs to whom it must.
    pub(crate) fn own(self, found: &Metadata) -> bool {
        match self {
            Self::One => found.uid() == own_user(),
            Self::Group { owner, group } => found.uid() == owner && found.gid() == group,
        }
    }

    /// The bits of a mode by which others than these could write.
    pub(crate) fn forbidden(self) -> u32 {
        match self {
            Self::One => OTHERS_WRITE,
            Self::Group { .. } => OTHERS_WRITE & 0o007,
        }
    }

    /// What the mode of the file is.
    pub(crate) fn file_mode(self) -> u32 {
        match self {
            Self::One => 0o600,
            Self::Group { .. } => 0o660,
        }
    }

    /// What the mode of the directory is.
    pub(crate) fn directory_mode(self) -> u32 {
        match self {
            Self::One => 0o700,
            Self::Group { .. } => SHARED | 0o700,
        }
    }

    /// The same of the file of a session: the others only see whether it is locked, and what it says.
    pub(crate) fn session_mode(self) -> u32 {
        match self {
            Self::One => 0o600,
            Self::Group { .. } => 0o640,
        }
    }

    /// The same of its socket, where the mode that it is made with is not good already.
    pub(crate) fn socket_mode(self) -> Option<u32> {
        matches!(self, Self::Group { .. }).then_some(0o660)
    }
}

/// The user who runs this process.
pub(crate) fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}
