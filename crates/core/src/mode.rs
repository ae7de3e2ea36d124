//! How a key is wanted and held: alone, or together with others.

use std::fmt;

use crate::Misuse;

/// How a key is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// Alone: nobody else holds the key in any way.
    Exclusive,
    /// Together with all others who want it so, as readers do.
    Shared,
    /// Together with others who count as many permits, as long as there are enough for all of them.
    Permits {
        /// How many it takes up.
        weight: u32,
        /// How many there are.
        of: u32,
    },
}

/// Who can hold a key together: those of one family, and nobody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_enums, reason = "whoever stores these must know all of them")]
pub enum Family {
    /// All who share it.
    Shared,
    /// All who count so many permits. Those who count another number are another family: together, each keeping to its own
    /// number, they could hold more than either allows.
    Permits {
        /// How many there are.
        of: u32,
    },
}

impl Mode {
    /// The most permits that a key can have.
    pub const MOST_PERMITS: u32 = 1 << 20;

    /// So many of so many permits.
    ///
    /// # Errors
    ///
    /// [`Misuse::PermitsOutOfBounds`], [`Misuse::NoPermits`] and [`Misuse::TooManyPermits`].
    pub const fn permits(weight: u32, of: u32) -> Result<Self, Misuse> {
        if of == 0 || of > Self::MOST_PERMITS {
            return Err(Misuse::PermitsOutOfBounds { of });
        }
        if weight == 0 {
            return Err(Misuse::NoPermits);
        }
        if weight > of {
            return Err(Misuse::TooManyPermits { weight, of });
        }
        Ok(Self::Permits { weight, of })
    }

    /// With whom it can be held together; `None`: with nobody.
    #[must_use]
    pub const fn family(self) -> Option<Family> {
        match self {
            Self::Exclusive => None,
            Self::Shared => Some(Family::Shared),
            Self::Permits { of, .. } => Some(Family::Permits { of }),
        }
    }

    /// How much it takes up; one who shares counts one, though nobody adds that up.
    #[must_use]
    pub const fn weight(self) -> u32 {
        match self {
            Self::Exclusive | Self::Shared => 1,
            Self::Permits { weight, .. } => weight,
        }
    }

    /// Reads what `Display` wrote; `None` for anything else.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        match text {
            "exclusive" => Some(Self::Exclusive),
            "shared" => Some(Self::Shared),
            _ => {
                let (weight, of) = text.strip_prefix("permits ")?.split_once('/')?;
                Self::permits(weight.parse().ok()?, of.parse().ok()?).ok()
            }
        }
    }
}

impl Family {
    /// How one of the family that takes up so much holds.
    #[must_use]
    pub const fn mode(self, weight: u32) -> Mode {
        match self {
            Self::Shared => Mode::Shared,
            Self::Permits { of } => Mode::Permits { weight, of },
        }
    }

    /// Whether one that takes up so much finds room beside others that take up `taken`.
    pub(crate) fn has_room(self, taken: u64, weight: u32) -> bool {
        match self {
            Self::Shared => true,
            Self::Permits { of } => taken + u64::from(weight) <= u64::from(of),
        }
    }

    /// Reads what `Display` wrote; `None` for anything else.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        match text {
            "shared" => Some(Self::Shared),
            _ => Mode::permits(1, text.strip_prefix("permits ")?.parse().ok()?).ok()?.family(),
        }
    }
}

/// `exclusive`, `shared` or `permits 2/4`.
impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exclusive => write!(f, "exclusive"),
            Self::Shared => write!(f, "shared"),
            Self::Permits { weight, of } => write!(f, "permits {weight}/{of}"),
        }
    }
}

/// `shared` or `permits 4`.
impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shared => write!(f, "shared"),
            Self::Permits { of } => write!(f, "permits {of}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permits_that_can_never_be_had_are_refused() {
        let most = Mode::MOST_PERMITS;
        assert_eq!(Mode::permits(0, 4), Err(Misuse::NoPermits));
        assert_eq!(Mode::permits(5, 4), Err(Misuse::TooManyPermits { weight: 5, of: 4 }));
        for of in [0, most + 1] {
            assert_eq!(Mode::permits(1, of), Err(Misuse::PermitsOutOfBounds { of }));
        }
        assert!(Mode::permits(4, 4).is_ok() && Mode::permits(most, most).is_ok());
    }

    #[test]
    fn what_is_written_reads_back_and_nothing_else_does() {
        for mode in [Mode::Exclusive, Mode::Shared, Mode::permits(2, 4).unwrap()] {
            assert_eq!(Mode::read(&mode.to_string()), Some(mode));
        }
        for family in [Family::Shared, Family::Permits { of: 4 }] {
            assert_eq!(Family::read(&family.to_string()), Some(family));
        }
        for text in ["", "Shared", "permits", "permits 5/4", "permits 0/4", "permits 4", "permits -1/4"] {
            assert_eq!(Mode::read(text), None);
        }
        for text in ["exclusive", "permits 0", "permits 1/4", "permits 9999999"] {
            assert_eq!(Family::read(text), None);
        }
    }
}
