//! A client of the one store: what `core::acquire`, `core::keep` and the settle rule of the Redis store come to.

use super::{Flaw, Id, LONG_TTL, NOT_AFTER, Step, TTL};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    /// Wants the lock.
    Asking,
    /// Has or had it.
    Holding,
    /// Gives up, or releases: both end in the same way.
    Undoing {
        /// Whether a release was answered.
        once: bool,
    },
    Gone,
}

/// A call under way: it was sent so many ticks ago, and asks for such a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Call {
    ticks: u8,
    ttl: u8,
}

/// A grant that was sent and not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Pending {
    age: u8,
    settles_in: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Client {
    pub(super) phase: Phase,
    pub(super) id: Id,
    /// For how long it believes that it holds.
    pub(super) believed: u8,
    call: Option<Call>,
    pending: Vec<Pending>,
    attempts: u8,
    breaks: u8,
    asks: u8,
    renewals: u8,
}

impl Client {
    pub(super) fn new(number: u8, attempts: u8, breaks: u8) -> Self {
        Self {
            phase: Phase::Asking,
            id: number * 4,
            believed: 0,
            call: None,
            pending: Vec::new(),
            attempts: attempts - 1,
            breaks,
            asks: 1 + u8::from(breaks > 0),
            renewals: 1 + u8::from(breaks > 0),
        }
    }

    pub(super) fn steps(&self, client: usize, steps: &mut Vec<Step>) {
        let idle = self.call.is_none();
        match self.phase {
            Phase::Asking if idle && self.asks > 0 => steps.push(Step::AsksForTheGrant { client }),
            Phase::Holding if idle && self.renewals > 0 && self.believed > 0 => {
                steps.extend([TTL, LONG_TTL].map(|ttl| Step::AsksToRenew { client, ttl }));
            }
            Phase::Undoing { once } if idle && (!once || self.has_settled()) => {
                steps.push(Step::SendsTheRelease { client });
            }
            _ => {}
        }
        if matches!(self.phase, Phase::Asking | Phase::Holding) {
            steps.push(Step::GivesUpOrReleases { client });
        }
    }

    pub(super) fn can_break(&self) -> bool {
        self.breaks > 0 && self.phase != Phase::Gone
    }

    pub(super) fn asks(&mut self) {
        self.asks -= 1;
        self.call = Some(Call { ticks: 0, ttl: TTL });
        self.pending.push(Pending { age: 0, settles_in: NOT_AFTER });
        self.pending.sort_by_key(|pending| (pending.age, pending.settles_in));
    }

    pub(super) fn renews(&mut self, ttl: u8) {
        self.renewals -= 1;
        self.call = Some(Call { ticks: 0, ttl });
    }

    /// The call under way, if any, is no longer awaited, but goes on.
    pub(super) fn gives_up(&mut self) {
        self.phase = Phase::Undoing { once: false };
        self.believed = 0;
        self.call = None;
        (self.asks, self.renewals) = (0, 0);
    }

    /// What the release will settle is known when it is sent.
    pub(super) fn releases(&mut self) {
        self.call = Some(Call { ticks: 0, ttl: 0 });
        if self.has_settled() {
            self.pending.clear();
        }
    }

    pub(super) fn connects_anew(&mut self) {
        self.breaks -= 1;
        self.call = None;
        self.pending.iter_mut().for_each(|pending| pending.age += 1);
    }

    pub(super) fn hears(&mut self, done: bool, flaw: Option<Flaw>) {
        let Some(call) = self.call.take() else { return };
        let counted = if flaw == Some(Flaw::CountedFromTheReply) { 0 } else { call.ticks };
        let lease = if done { call.ttl.saturating_sub(counted) } else { 0 };
        match self.phase {
            Phase::Asking => {
                // The answer settles the grant that it answers, and no other: the last one sent on this connection.
                let answered = self.pending.iter().rposition(|pending| pending.age == 0);
                answered.map(|nth| self.pending.remove(nth));
                if lease > 0 {
                    self.phase = Phase::Holding;
                    self.believed = lease;
                }
            }
            // A lease that was given up for lost does not come back.
            Phase::Holding if !done || self.believed == 0 => self.believed = 0,
            Phase::Holding => self.believed = self.believed.max(lease),
            Phase::Undoing { .. } => {
                self.pending.retain(|pending| pending.age > 0);
                if self.pending.is_empty() || flaw == Some(Flaw::OneRelease) {
                    self.begin_again(flaw);
                } else {
                    self.phase = Phase::Undoing { once: true };
                }
            }
            Phase::Gone => {}
        }
    }

    pub(super) fn pass_time(&mut self) {
        self.believed = self.believed.saturating_sub(1);
        if let Some(call) = &mut self.call {
            call.ticks = call.ttl.min(call.ticks + 1);
        }
        for pending in &mut self.pending {
            pending.settles_in = pending.settles_in.saturating_sub(1);
        }
    }

    fn has_settled(&self) -> bool {
        self.pending.iter().all(|pending| pending.settles_in == 0)
    }

    fn begin_again(&mut self, flaw: Option<Flaw>) {
        self.pending.clear();
        self.phase = Phase::Gone;
        if self.attempts > 0 {
            self.attempts -= 1;
            let same_id = flaw == Some(Flaw::OneIdPerClient);
            let id = if same_id { self.id } else { self.id + 1 };
            let (phase, asks) = (Phase::Asking, 1);
            *self = Self { phase, id, asks, ..self.clone() };
        } else {
            self.breaks = 0;
        }
    }
}
