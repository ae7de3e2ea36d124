//! Tracks grants in doubt: they were sent and not answered, and the server may still execute them.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::Mutex;

use crate::{Holder, Instant, locked};

/// The id of one connection; never reused for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "a connection has a number and no more")]
pub struct ConnectionId(pub u64);

/// The grants that were sent and not answered, each until the server would refuse it as too late.
///
/// If the connection of a grant broke, the grant may be in the server's buffers, and may be
/// executed after the release that was meant to undo it. It carries a not-after, so a release that
/// is sent when the server's clock is past that comes last. A release on the connection of a grant
/// that was sent earlier comes after that grant anyway.
#[derive(Debug, Default)]
pub struct InDoubtGrants(Mutex<Table>);

#[derive(Clone, Debug, Default)]
struct Table {
    pending: BTreeMap<(Holder, u64), Pending>,
    /// At this size, settled entries are searched for and removed.
    full_at: usize,
}

#[derive(Clone, Copy, Debug, Hash)]
struct Pending {
    /// `None` if connections cannot be distinguished.
    via: Option<ConnectionId>,
    /// The latest time at which it was written to the connection; `None` until then.
    written: Option<Instant>,
    settles_at: Instant,
}

/// A grant that is being sent.
#[derive(Clone, Copy, Debug, Hash)]
pub struct Sending {
    holder: Holder,
    number: u64,
}

/// More than are usually in flight.
const MANY: usize = 256;

impl Table {
    fn add(
        &mut self,
        holder: Holder,
        via: Option<ConnectionId>,
        written: Option<Instant>,
        now: Instant,
        settles_at: Instant,
    ) -> Sending {
        let Self { pending, full_at } = self;
        if pending.len() >= MANY.max(*full_at) {
            pending.retain(|_, grant| grant.settles_at > now);
            *full_at = 2 * pending.len();
        }
        let mut number = 0;
        while pending.contains_key(&(holder, number)) {
            number += 1;
        }
        pending.insert((holder, number), Pending { via, written, settles_at });
        Sending { holder, number }
    }
}

impl InDoubtGrants {
    /// Registers a grant that is about to be sent by the caller that may also send its release.
    pub fn sending(
        &self,
        holder: Holder,
        via: Option<ConnectionId>,
        now: Instant,
        settles_at: Instant,
    ) -> Sending {
        locked(&self.0).add(holder, via, Some(now), now, settles_at)
    }

    /// Registers grants that are about to be sent together, by another task than the ones that may
    /// send their releases. Until they are [written](InDoubtGrants::written), only time settles
    /// them, not a release.
    pub fn sending_all(
        &self,
        holders: impl Iterator<Item = Holder>,
        via: Option<ConnectionId>,
        now: Instant,
        settles_at: Instant,
    ) -> Vec<Sending> {
        let mut table = locked(&self.0);
        holders.map(|holder| table.add(holder, via, None, now, settles_at)).collect()
    }

    /// Notes that they were written to their connection before this instant.
    pub fn written<'a>(&self, sendings: impl IntoIterator<Item = &'a Sending>, at: Instant) {
        let mut table = locked(&self.0);
        for sending in sendings {
            if let Some(grant) = table.pending.get_mut(&(sending.holder, sending.number)) {
                grant.written.get_or_insert(at);
            }
        }
    }

    /// Notes that they were answered, and so are settled.
    pub fn answered(&self, sendings: impl IntoIterator<Item = Sending>) {
        let mut table = locked(&self.0);
        for sending in sendings {
            table.pending.remove(&(sending.holder, sending.number));
        }
    }

    /// Notes that a release was sent at this instant and answered. Returns when it must be sent
    /// again, if it must.
    #[must_use]
    pub fn released(&self, holder: Holder, via: Option<ConnectionId>, sent: Instant) -> Option<Instant> {
        let pending = &mut locked(&self.0).pending;
        let is_before = |written: Option<Instant>| written.is_some_and(|written| written < sent);
        let comes_after = |grant: &Pending| via.is_some() && grant.via == via && is_before(grant.written);
        let (mut over, mut settles_at) = (Vec::new(), None);
        for (name, grant) in pending.range((holder, 0)..=(holder, u64::MAX)) {
            if grant.settles_at <= sent || comes_after(grant) {
                over.push(*name);
            } else {
                settles_at = settles_at.max(Some(grant.settles_at));
            }
        }
        for name in over {
            pending.remove(&name);
        }
        settles_at
    }
}

impl Clone for InDoubtGrants {
    fn clone(&self) -> Self {
        Self(Mutex::new(locked(&self.0).clone()))
    }
}

impl Hash for InDoubtGrants {
    fn hash<H: Hasher>(&self, state: &mut H) {
        locked(&self.0).pending.hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOLDER: Holder = Holder::from_bits(1);
    const OTHER: Holder = Holder::from_bits(2);
    const VIA: Option<ConnectionId> = Some(ConnectionId(1));
    const NEXT: Option<ConnectionId> = Some(ConnectionId(2));

    const fn at(second: u64) -> Instant {
        Instant::from_nanos(second * 1_000_000_000)
    }

    #[test]
    fn a_release_on_another_connection_must_come_again_after_the_last_not_after() {
        let unsettled = InDoubtGrants::default();
        unsettled.sending(HOLDER, VIA, at(0), at(10));
        unsettled.sending(HOLDER, VIA, at(0), at(12));
        unsettled.sending(OTHER, VIA, at(0), at(99));
        assert_eq!(unsettled.released(HOLDER, NEXT, at(1)), Some(at(12)));
        assert_eq!(unsettled.released(HOLDER, NEXT, at(11)), Some(at(12)));
        assert_eq!(unsettled.released(HOLDER, NEXT, at(12)), None);
    }

    #[test]
    fn a_release_on_the_connection_of_the_grant_comes_after_it() {
        let unsettled = InDoubtGrants::default();
        unsettled.sending(HOLDER, VIA, at(0), at(10));
        assert_eq!(unsettled.released(HOLDER, VIA, at(1)), None);
    }

    /// Regression: an attempt was given up while one of its calls still waited to be sent. The
    /// release was sent first, then the grant, on the same connection. The release's answer removed
    /// the grant from this table, and when the connection broke, nobody undid it.
    #[test]
    fn a_release_that_was_sent_before_the_grant_settles_nothing() {
        let unsettled = InDoubtGrants::default();
        unsettled.sending(HOLDER, VIA, at(2), at(10));
        assert_eq!(unsettled.released(HOLDER, VIA, at(1)), Some(at(10)));
        assert_eq!(unsettled.released(HOLDER, VIA, at(3)), None);
    }

    /// Regression: a caller dropped its request while another thread sent the batch, and released
    /// it on the same connection before the batch was written there.
    #[test]
    fn a_release_that_was_sent_before_its_batch_was_written_settles_nothing() {
        let unsettled = InDoubtGrants::default();
        let sent = unsettled.sending_all([HOLDER].into_iter(), VIA, at(1), at(10));
        assert_eq!(unsettled.released(HOLDER, VIA, at(2)), Some(at(10)));
        unsettled.written(&sent, at(3));
        assert_eq!(unsettled.released(HOLDER, VIA, at(3)), Some(at(10)));
        assert_eq!(unsettled.released(HOLDER, VIA, at(4)), None);
    }

    #[test]
    fn indistinguishable_connections_count_as_different() {
        let unsettled = InDoubtGrants::default();
        unsettled.sending(HOLDER, None, at(0), at(10));
        assert_eq!(unsettled.released(HOLDER, None, at(1)), Some(at(10)));
    }

    #[test]
    fn an_answer_settles_the_grant_that_it_answers_and_no_other() {
        let unsettled = InDoubtGrants::default();
        let first = unsettled.sending(HOLDER, VIA, at(0), at(10));
        let again = unsettled.sending(HOLDER, NEXT, at(5), at(15));
        unsettled.answered([again]);
        assert_eq!(unsettled.released(HOLDER, NEXT, at(6)), Some(at(10)));
        unsettled.answered([first]);
        assert_eq!(unsettled.released(HOLDER, NEXT, at(6)), None, "nothing is left");
    }

    #[test]
    fn a_settled_grant_is_forgotten() {
        let unsettled = InDoubtGrants::default();
        for bits in 0..10_000 {
            unsettled.sending(Holder::from_bits(bits), VIA, at(20), at(10));
        }
        assert!(locked(&unsettled.0).pending.len() <= MANY);
    }
}
