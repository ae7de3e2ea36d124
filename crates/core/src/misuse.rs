//! Errors of the caller, which a change of the call repairs.

use std::fmt;
use std::time::Duration;

use crate::holder::Label;
use crate::{Fence, Key, Mark, Mode, Ttl};

/// A request that no store can serve. It is found before anything is sent; the text says what is
/// wrong and what to do.
///
/// ```
/// # use leasehold_core::{Misuse, Ttl};
/// # use std::time::Duration;
/// let refused: Result<Ttl, Misuse> = Ttl::new(Duration::ZERO);
/// println!("{}", refused.unwrap_err()); // says what a TTL may be
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Misuse {
    /// The key has no bytes.
    EmptyKey,
    /// The key is longer than [`Key::MAX_LEN`] bytes.
    KeyTooLong {
        /// Its length in bytes.
        len: usize,
    },
    /// The key starts with [`Key::RESERVED`].
    ReservedKey {
        /// The key, escaped for one line.
        key: String,
    },
    /// No key was named.
    NoKeys,
    /// A semaphore with no permits, or with more than [`Mode::MOST_PERMITS`].
    PermitsOutOfBounds {
        /// The requested number of permits in all.
        of: u32,
    },
    /// A request for zero permits.
    NoPermits,
    /// A request for more permits than there are.
    TooManyPermits {
        /// The number of requested permits.
        weight: u32,
        /// The number of permits in all.
        of: u32,
    },
    /// The TTL is shorter than [`Ttl::MIN`].
    TtlTooShort {
        /// The requested TTL.
        asked: Duration,
    },
    /// The TTL is longer than [`Ttl::MAX`].
    TtlTooLong {
        /// The requested TTL.
        asked: Duration,
    },
    /// The TTL is longer than the longest that the members of the quorum allow.
    TtlOverLongest {
        /// The requested TTL.
        asked: Ttl,
        /// The longest TTL.
        longest: Ttl,
    },
    /// A period is shorter than [`Mark::LEAST_PERIOD`](crate::Mark::LEAST_PERIOD), or longer than
    /// any mark is kept.
    PeriodOutOfRange {
        /// The period.
        period: Duration,
    },
    /// A request for permits in a quorum.
    PermitsOfAQuorum {
        /// The quorum's name, without any password.
        name: String,
    },
    /// A quorum has no members.
    NoMembers,
    /// A quorum contains the same store twice.
    SameMemberTwice {
        /// Its name, without any password.
        name: String,
    },
    /// The longest TTL of a quorum is shorter than
    /// [`Fence::LEAST_MAX_TTL`](crate::Fence::LEAST_MAX_TTL).
    MaxTtlTooShort {
        /// The requested longest TTL.
        asked: Duration,
    },
    /// A number that cannot be a fence: it is negative, or greater than [`Fence::MAX`].
    FenceOutOfRange {
        /// The number.
        number: i128,
    },
    /// A text that is not the decimal digits of a fence.
    FenceNotANumber {
        /// The text, escaped for one line.
        text: String,
    },
    /// A drift that would use up a whole lease.
    Drift {
        /// The thousandths of the TTL that it subtracts; 1,000 if nothing is left.
        per_thousand: u32,
    },
    /// The longest hold is shorter than one TTL, so that not even the first lease would fit into
    /// it.
    HoldShorterThanTtl {
        /// The requested longest hold.
        at_most: Duration,
        /// The ttl.
        ttl: Ttl,
    },
    /// The label is longer than [`Label::MAX_LEN`] bytes.
    LabelTooLong {
        /// Its length in bytes.
        len: usize,
    },
    /// The label contains a control character.
    LabelNotPrintable,
    /// A backoff whose first delay is zero, or longer than its longest delay.
    Backoff {
        /// The first delay.
        first: Duration,
        /// The longest delay.
        most: Duration,
    },
    /// Two keys that the store cannot lock together, because they are in different slots of a
    /// cluster.
    KeysApart {
        /// One of them.
        one: Key,
        /// The first key, in byte order, in another slot.
        other: Key,
    },
    /// A text that is not a [`TransferToken`](crate::TransferToken).
    NotATransferToken {
        /// The error in it.
        reason: String,
    },
    /// An unknown naming of a library's locks.
    UnknownNaming {
        /// The text, escaped for one line.
        naming: String,
    },
    /// A store that cannot be a member of a quorum.
    NoMember {
        /// Its name, without any password.
        name: String,
        /// The reason, and the remedy.
        reason: String,
    },
    /// An existing client of the program from which no store can be made.
    NotLendable {
        /// The name of the intended store.
        name: String,
        /// The reason, and the remedy.
        reason: String,
    },
    /// The store URL is invalid. This never contains a password.
    Url {
        /// The fact, and the remedy.
        reason: String,
    },
}

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EmptyKey => write!(f, "the key is empty: name what is to be locked"),
            Self::KeyTooLong { len } => write!(
                f,
                "the key is {len} bytes long and may have {}: use a shorter name, or a hash of this one",
                Key::MAX_LEN
            ),
            Self::ReservedKey { key } => {
                write!(f, "{key}: keys that start with {} are reserved: choose another prefix", Key::RESERVED)
            }
            Self::NoKeys => write!(f, "no key was named: name at least one"),
            Self::PermitsOutOfBounds { of } => write!(
                f,
                "a semaphore cannot have {of} permits: it needs 1 at least, and {} at most",
                Mode::MOST_PERMITS
            ),
            Self::NoPermits => write!(f, "no permit was requested: request one at least"),
            Self::TooManyPermits { weight, of } => {
                write!(
                    f,
                    "requested {weight} permits, but the semaphore has only {of}: request fewer, or raise its number"
                )
            }
            Self::TtlTooShort { asked } => write!(
                f,
                "a ttl of {} s is too short: the minimum is {} s, and some seconds are usual",
                asked.as_secs_f64(),
                Ttl::MIN.duration().as_secs_f64()
            ),
            Self::TtlTooLong { asked } => write!(
                f,
                "a ttl of {} s is too long: a year is the most; leases are renewed while they are held, so that the \
                 ttl is only how long a crash blocks others",
                asked.as_secs_f64()
            ),
            Self::TtlOverLongest { asked, longest } => write!(
                f,
                "a ttl of {asked} is longer than the longest of this quorum, {longest}: shorten the ttl, or lengthen the \
                 longest for all who use these stores"
            ),
            Self::PeriodOutOfRange { period } => write!(
                f,
                "a period of {} s is out of range: from {} s to a hundred years",
                period.as_secs_f64(),
                Mark::LEAST_PERIOD.as_secs_f64()
            ),
            Self::PermitsOfAQuorum { name } => write!(
                f,
                "{name}: a quorum cannot count permits, because each of its majorities would count others: use one store, or \
                 a mutex for each permit"
            ),
            Self::NoMembers => write!(f, "a quorum of no stores: name three or five"),
            Self::SameMemberTwice { name } => {
                write!(f, "{name} is in the quorum twice and would be counted twice: name each store once")
            }
            Self::MaxTtlTooShort { asked } => write!(
                f,
                "a longest ttl of {} s is too short for a quorum: the minimum is {} s, and 60 s is usual",
                asked.as_secs_f64(),
                Fence::LEAST_MAX_TTL.as_secs_f64()
            ),
            Self::FenceOutOfRange { number } => {
                write!(f, "{number} is not a fence: fences are from 0 to {}", Fence::MAX)
            }
            Self::FenceNotANumber { text } => {
                write!(f, "{text:?} is not a fence: write its number in decimal digits")
            }
            Self::Drift { per_thousand } => write!(
                f,
                "a drift of {per_thousand} thousandths of the ttl leaves no lease: make it smaller, or the ttl longer; 1 is usual, \
                 500 is the maximum"
            ),
            Self::HoldShorterThanTtl { at_most, ttl } => {
                write!(f, "a longest hold of {at_most:?} is shorter than the ttl of {ttl}: shorten the ttl")
            }
            Self::LabelTooLong { len } => {
                write!(
                    f,
                    "a label or reason may have {} bytes, and this has {len}: shorten it",
                    Label::MAX_LEN
                )
            }
            Self::LabelNotPrintable => {
                write!(f, "a label or reason contains a control character: use printable text on one line")
            }
            Self::Backoff { first, most } => write!(
                f,
                "a backoff from {first:?} to {most:?} is invalid: the first delay must be above zero and not \
                 above the longest"
            ),
            Self::KeysApart { one, other } => write!(
                f,
                "{one} and {other} lie in different slots of the cluster, which locks only keys of one slot together: give \
                 them one hash tag, as in {{order:7}}:stock and {{order:7}}:bill"
            ),
            Self::NotATransferToken { reason } => {
                write!(f, "this is not a transfer token: {reason}; pass on the text of the token as it is")
            }
            Self::UnknownNaming { naming } => write!(
                f,
                "{naming}: this is not the name of a known naming: verbatim, redlock.net, pottery, redis-semaphore, \
                 python-redis-lock, shedlock, shedlock:ENVIRONMENT and exclusive-lock are; any other prefix is part of the name"
            ),
            Self::NoMember { name, reason } => write!(f, "{name} cannot be a member of a quorum: {reason}"),
            Self::NotLendable { name, reason } => write!(f, "{name}: {reason}"),
            Self::Url { reason } => f.write_str(reason),
        }
    }
}

impl std::error::Error for Misuse {}
