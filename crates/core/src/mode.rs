//! The modes in which a key is requested and held: exclusive or shared.

use std::fmt;

use crate::Misuse;

/// The mode in which a key is requested.
///
/// ```
/// use leasehold_core::Mode;
///
/// fn in_words(mode: Mode) -> String {
///     match mode {
///         Mode::Exclusive => "alone".to_owned(),
///         Mode::Shared => "as a reader".to_owned(),
///         Mode::Permits { weight, of } => format!("with {weight} of {of} permits"),
///         _ => mode.to_string(),
///     }
/// }
/// assert_eq!(in_words(Mode::Shared), "as a reader");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// Exclusive: nobody else holds the key in any mode.
    Exclusive,
    /// Shared with all others that request it in this mode, as by readers.
    Shared,
    /// Shared with others that use the same number of permits, as long as there are enough permits.
    Permits {
        /// The number of permits that it takes.
        weight: u32,
        /// The number of permits in all.
        of: u32,
    },
}

/// Holders that can share a key: those of one family, and nobody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_enums, reason = "stores must encode every variant")]
pub enum Family {
    /// All holders in shared mode.
    Shared,
    /// All holders that use the same number of permits. Users of another number are another family:
    /// if each kept only to its own number, they could hold more together than either allows.
    Permits {
        /// The number of permits in all.
        of: u32,
    },
}

impl Mode {
    /// The most permits that a key can have.
    pub const MOST_PERMITS: u32 = 1 << 20;

    /// A mode that takes `weight` of `of` permits.
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

    /// The family that can share the key in this mode; `None` for an exclusive mode.
    #[must_use]
    pub const fn family(self) -> Option<Family> {
        match self {
            Self::Exclusive => None,
            Self::Shared => Some(Family::Shared),
            Self::Permits { of, .. } => Some(Family::Permits { of }),
        }
    }

    /// How much it takes; a shared holder counts as one, although nobody adds that up.
    #[must_use]
    pub const fn weight(self) -> u32 {
        match self {
            Self::Exclusive | Self::Shared => 1,
            Self::Permits { weight, .. } => weight,
        }
    }

    /// Reads the output of `Display`; `None` for anything else.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        match text {
            "exclusive" => Some(Self::Exclusive),
            "shared" => Some(Self::Shared),
            _ => {
                let (weight, of) = text.strip_prefix("permits ")?.split_once('/')?;
                Self::permits(read_permits(weight)?, read_permits(of)?).ok()
            }
        }
    }
}

impl Family {
    /// The mode of a family member that takes this much.
    #[must_use]
    pub const fn mode(self, weight: u32) -> Mode {
        match self {
            Self::Shared => Mode::Shared,
            Self::Permits { of } => Mode::Permits { weight, of },
        }
    }

    /// Returns true if a holder that takes this much fits next to others that take `taken`.
    pub(crate) fn has_room(self, taken: u64, weight: u32) -> bool {
        match self {
            Self::Shared => true,
            Self::Permits { of } => taken + u64::from(weight) <= u64::from(of),
        }
    }

    /// Reads the output of `Display`; `None` for anything else.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        match text {
            "shared" => Some(Self::Shared),
            _ => Mode::permits(1, read_permits(text.strip_prefix("permits ")?)?).ok()?.family(),
        }
    }
}

/// An integer's own reader would take a plus sign and leading zeros too.
fn read_permits(text: &str) -> Option<u32> {
    text.parse().ok().filter(|_| !text.starts_with(['+', '0']))
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
    fn more_permits_than_the_semaphore_has_are_refused() {
        let most = Mode::MOST_PERMITS;
        assert_eq!(Mode::permits(0, 4), Err(Misuse::NoPermits));
        assert_eq!(Mode::permits(5, 4), Err(Misuse::TooManyPermits { weight: 5, of: 4 }));
        for of in [0, most + 1] {
            assert_eq!(Mode::permits(1, of), Err(Misuse::PermitsOutOfBounds { of }));
        }
        assert!(Mode::permits(4, 4).is_ok() && Mode::permits(most, most).is_ok());
    }

    #[test]
    fn a_written_mode_reads_back_and_other_text_is_refused() {
        for mode in [Mode::Exclusive, Mode::Shared, Mode::permits(2, 4).unwrap()] {
            assert_eq!(Mode::read(&mode.to_string()), Some(mode));
        }
        for family in [Family::Shared, Family::Permits { of: 4 }] {
            assert_eq!(Family::read(&family.to_string()), Some(family));
        }
        for text in ["", "Shared", "permits"] {
            assert_eq!(Mode::read(text), None, "{text}");
        }
        for permits in ["5/4", "0/4", "4", "+1/4", "1/04"] {
            assert_eq!(Mode::read(&format!("permits {permits}")), None, "{permits}");
        }
        for text in ["exclusive", "permits 0", "permits 1/4", "permits 9999999", "permits +4", "permits 04"] {
            assert_eq!(Family::read(text), None, "{text}");
        }
    }
}
