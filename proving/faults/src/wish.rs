//! The mode and keys that a task wants, and which modes exclude each other.

use std::{fmt, str::FromStr};

use leasehold::{Acquire, Locks};

/// The mode and keys that a task wants: `read doc`, `write doc`, `permits 2/5 gpus`, `alone a,b`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    pub mode: Wanted,
    pub keys: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    Alone,
    Read,
    /// This many of so many permits.
    Permits(u32, u32),
}

/// True if both may hold a key at the same time, as far as there is room for both.
pub(crate) fn can_be_together(one: Wanted, other: Wanted) -> bool {
    match (one, other) {
        (Wanted::Read, Wanted::Read) => true,
        (Wanted::Permits(_, one), Wanted::Permits(_, other)) => one == other,
        _ => false,
    }
}

/// True if there are too few permits for one more holder.
pub(crate) fn is_over_full(others: impl Iterator<Item = Wanted>, mode: Wanted) -> bool {
    let Wanted::Permits(weight, of) = mode else { return false };
    let weight_of = |mode| if let Wanted::Permits(weight, _) = mode { weight } else { 0 };
    others.map(weight_of).sum::<u32>() + weight > of
}

impl FromStr for Wish {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words: Vec<_> = text.split(' ').collect();
        let (mode, keys) = match words[..] {
            ["alone" | "write", keys] => (Wanted::Alone, keys),
            ["read", keys] => (Wanted::Read, keys),
            ["permits", number, keys] => {
                let numbers = number.split_once('/').and_then(|(n, of)| n.parse().ok().zip(of.parse().ok()));
                let (weight, of) = numbers.ok_or_else(|| format!("{number} is not a number of permits"))?;
                (Wanted::Permits(weight, of), keys)
            }
            _ => return Err(format!("{text} is not a wish")),
        };
        Ok(Self { mode, keys: keys.split(',').map(ToOwned::to_owned).collect() })
    }
}

impl fmt::Display for Wish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.mode {
            Wanted::Alone => f.write_str("alone")?,
            Wanted::Read => f.write_str("read")?,
            Wanted::Permits(weight, of) => write!(f, "permits {weight}/{of}")?,
        }
        write!(f, " {}", self.keys.join(","))
    }
}

impl Wish {
    pub(crate) fn request(&self, locks: &Locks) -> Acquire {
        match self.mode {
            // A writer of a reader-writer lock is a mutex.
            Wanted::Alone => locks.rw_lock_all(&self.keys).write().untyped(),
            Wanted::Read => locks.rw_lock_all(&self.keys).read().untyped(),
            Wanted::Permits(weight, of) => locks.semaphore_all(&self.keys, of).acquire_many(weight).untyped(),
        }
    }
}
