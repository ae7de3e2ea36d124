//! How large a world is, and what may go wrong in it.

use super::Who;

/// Who takes part, and what may happen to them.
///
/// No single world has everything in it: that would be too large. Each has what one promise, or one flaw, is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Scope {
    pub(super) attempts: u8,
    pub(super) siblings: bool,
    pub(super) time: bool,
    pub(super) pair: bool,
    pub(super) pings: bool,
    pub(super) patient: bool,
    pub(super) crashes: u8,
    pub(super) cancels: u8,
    pub(super) lost_pushes: u8,
    pub(super) breaks: u8,
    pub(super) flushes: u8,
    pub(super) restarts: u8,
    pub(super) strangers: u8,
    pub(super) deletions: u8,
    pub(super) line_ends: u8,
    pub(super) clock_steps: u8,
    pub(super) slow: Option<usize>,
}

macro_rules! trouble {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        $($(#[$doc])* #[must_use] pub const fn $name(self, $name: u8) -> Self { Self { $name, ..self } })+
    };
}

impl Scope {
    /// So many attempts, each by a process of its own, with the script alone and with time.
    #[must_use]
    pub const fn apart(attempts: u8) -> Self {
        Self {
            attempts,
            siblings: false,
            time: true,
            pair: false,
            pings: false,
            patient: false,
            crashes: 0,
            cancels: 0,
            lost_pushes: 0,
            breaks: 0,
            flushes: 0,
            restarts: 0,
            strangers: 0,
            deletions: 0,
            line_ends: 0,
            clock_steps: 0,
            slow: None,
        }
    }

    /// So many attempts, the first two of them by one process on one channel.
    #[must_use]
    pub const fn siblings(attempts: u8) -> Self {
        Self { siblings: true, ..Self::apart(attempts) }
    }

    /// No lease ends, and nobody asks again, so each wake-up must come by push. Much smaller.
    #[must_use]
    pub const fn timeless(self) -> Self {
        Self { time: false, ..self }
    }

    /// An attempt may begin with the native pair.
    #[must_use]
    pub const fn with_the_pair(self) -> Self {
        Self { pair: true, ..self }
    }

    /// Waiters ping, so that the lease of a push is fresh.
    #[must_use]
    pub const fn with_pings(self) -> Self {
        Self { pings: true, ..self }
    }

    /// Time passes only while nothing is under way but to and from this process. Much smaller.
    #[must_use]
    pub const fn only_one_slow(self, process: usize) -> Self {
        Self { slow: Some(process), ..self }
    }

    /// Nobody asks again but for a reason: it was told to, or stands first and the holder's lease has ended.
    #[must_use]
    pub const fn patient(self) -> Self {
        Self { patient: true, ..self }
    }

    trouble! {
        /// So many processes crash.
        crashes,
        /// So many waiters change their mind.
        cancels,
        /// So many pushes are lost.
        lost_pushes,
        /// So many connections break; what is under way on them may still arrive.
        breaks,
        /// So many times everything is deleted.
        flushes,
        /// So many times the server starts anew and empty.
        restarts,
        /// So many times a stranger takes the free key.
        strangers,
        /// So many times somebody deletes the key whose it is not.
        deletions,
        /// So many times the line is forgotten because nobody asked again for long.
        line_ends,
        /// So many times the clock of the server is set forward, when nobody holds.
        clock_steps,
    }

    pub(super) const fn process_of(self, attempt: Who) -> usize {
        let attempt = attempt as usize;
        if self.siblings { attempt.saturating_sub(1) } else { attempt }
    }

    pub(super) const fn processes(self) -> usize {
        self.attempts as usize - self.siblings as usize
    }
}
