//! A number whose optional form takes no more space.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::num::NonZeroU64;

/// A number below `u64::MAX`; a greater one becomes that. There may be very many in a process, many
/// of them optional, so one more than the number is stored, and zero stands for none.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Compact(NonZeroU64);

impl Compact {
    pub(crate) const fn new(number: u64) -> Self {
        Self(NonZeroU64::MIN.saturating_add(number))
    }

    pub(crate) const fn get(self) -> u64 {
        self.0.get() - 1
    }
}

/// The hash is that of the number, which does not depend on how it is stored.
impl Hash for Compact {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.get().hash(state);
    }
}

impl fmt::Debug for Compact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_optional_number_takes_no_more_space_and_keeps_its_order() {
        assert_eq!(size_of::<Option<Compact>>(), size_of::<u64>());
        for number in [0, 1, u64::MAX - 1] {
            let compact = Compact::new(number);
            assert_eq!((compact.get(), format!("{compact:?}")), (number, number.to_string()));
        }
        assert_eq!(Compact::new(u64::MAX), Compact::new(u64::MAX - 1));
        assert!(Some(Compact::new(0)) > None && Compact::new(1) > Compact::new(0));
    }
}
