//! A majority of independent members: the holders, their fences, and what is left behind.
//!
//! There is no clock. A lease may end, and a quarantine, at any moment, and that is all that is known of time:
//!
//! - A lease at a member ends after the belief that rests on the same call, or on an earlier one: the client counts from before the
//!   first sending, the member from the serving, and neither a grant nor a renewal shortens a lease.
//! - A quarantine ends after each belief that rests on a call sent before the restart: no ttl is above max ttl.
//! - When it ends, the clocks show more than the fence that was lost: they differ by less than it lasts.
//!
//! A message, once sent, may be served at any time, also after the answers of later ones, or never; an answer may be read at any time or
//! never, which comes to the same as deciding without it. A client that stalls takes no step. Left out, each for a reason:
//!
//! - *Which member is which.* They are alike but for the one with the line, so worlds that differ in their order only are one.
//! - *Run ids.* What they are for is that no vote is counted between a restart and the end of the quarantine, which is taken as given.
//! - *The line member's death.* Whoever waits there then releases everything and is an attempt anew.
//! - *The order of the line.* Whoever waits is granted at a moment of the member's choosing, as with any message that is late.
//!   Who is next, and who is woken, see [`store`](crate::store).
//! - *Raises that come after the release.* They lift a fence by as much as a higher `t` would have.

mod attempt;
mod flaw;
mod member;
mod serve;
mod steps;

use std::fmt;
use std::hash::{Hash, Hasher};

use crate::explore::World;
use attempt::{Attempt, Phase};
pub use flaw::Flaw;
use member::{Member, Quarantine};

/// The most attempts that a world can have.
const MOST: usize = 3;
/// The most calls of one attempt.
const CALLS: u8 = 5;

/// From what a member that comes out of its quarantine knows of the fence that it lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Memory {
    /// Its clock, which shows more.
    Clock,
    /// A majority of all members, itself not among them.
    Others,
    /// Nothing; but a member restarts only while a majority of the others is held and knows the fence.
    Holder,
}

/// What may happen in a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Rules {
    flaw: Option<Flaw>,
    attempts: usize,
    memory: Memory,
    /// Whether leases end when they should. Otherwise they end at any time, and nobody notices.
    has_time: bool,
    /// The lowest fences that an attempt may choose from.
    lowest: &'static [u8],
}

/// The world, of so many members.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Quorum<const N: usize> {
    rules: Rules,
    members: [Member; N],
    attempts: [Attempt; MOST],
    names: Names<N>,
    restarts: u8,
    forgets: u8,
    crashes: u8,
    renewals: u8,
    waits: u8,
    /// How many grants may still be served a second time.
    twins: u8,
    /// Every clock shows more than this.
    clock: u8,
    /// The fences that were granted, a bit for each; where there is time, only the last.
    granted: u16,
    fault: Option<&'static str>,
}

/// A member in a trace: where it stands, and its name.
#[derive(Clone, Copy)]
pub struct At(u8, u8);

/// What can happen.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each reads as a sentence in a trace")]
pub enum Step {
    AsksAll { attempt: usize, t: u8 },
    ReleasesTheOthersAndWaits { attempt: usize },
    AsksTheOthersAgain { attempt: usize },
    RaisesTo { attempt: usize, fence: u8 },
    IsGranted { attempt: usize, fence: u8 },
    RenewsEverywhere { attempt: usize },
    RenewalIsConfirmed { attempt: usize },
    RenewalFailsAndItReleases { attempt: usize },
    GivesUpOrReleases { attempt: usize },
    ChangesItsMind { attempt: usize },
    Crashes { attempt: usize },
    Grants { member: At, attempt: usize },
    GrantsLate { member: At, attempt: usize, round: u8 },
    Raises { member: At, attempt: usize },
    Renews { member: At, attempt: usize, call: u8 },
    Releases { member: At, attempt: usize, round: u8 },
    ReleasesForGood { member: At, attempt: usize, round: u8 },
    LeaseEnds { member: At },
    LeaseEndsBeforeItCounts { member: At },
    RestartsEmpty { member: At },
    ForgetsTheFence { member: At },
    QuarantineEnds { member: At },
}

impl<const N: usize> Quorum<N> {
    /// So many attempts, each by a client of its own.
    #[must_use]
    pub fn new(flaw: Option<Flaw>, attempts: usize) -> Self {
        let rules = Rules { flaw, attempts, memory: Memory::Clock, has_time: true, lowest: &[1] };
        Self {
            rules,
            members: [Member::default(); N],
            attempts: [Attempt::default(); MOST],
            names: Names(std::array::from_fn(|at| u8::try_from(at).expect("few members"))),
            restarts: 0,
            forgets: 0,
            crashes: 0,
            renewals: 0,
            waits: 0,
            twins: 0,
            clock: 0,
            granted: 0,
            fault: None,
        }
    }

    /// So many times a member restarts empty.
    #[must_use]
    pub fn restarts(mut self, restarts: u8, memory: Memory) -> Self {
        self.restarts = restarts;
        self.rules.memory = memory;
        self
    }

    /// So many times a member forgets a fence that was not in use for long.
    #[must_use]
    pub fn forgets(self, forgets: u8) -> Self {
        Self { forgets, ..self }
    }

    /// So many clients crash.
    #[must_use]
    pub fn crashes(self, crashes: u8) -> Self {
        Self { crashes, ..self }
    }

    /// So many times a holder renews.
    #[must_use]
    pub fn renewals(self, renewals: u8) -> Self {
        Self { renewals, ..self }
    }

    /// So many grants are served twice.
    #[must_use]
    pub fn twins(self, twins: u8) -> Self {
        Self { twins, ..self }
    }

    /// Each attempt has one of these as its lowest fence.
    #[must_use]
    pub fn lowest(mut self, lowest: &'static [u8]) -> Self {
        self.rules.lowest = lowest;
        self
    }

    /// One member has the line, and so many times an attempt releases the others, waits there, and asks the others again.
    #[must_use]
    pub fn waits(mut self, waits: u8) -> Self {
        self.waits = waits;
        self.members[0].has_line = true;
        self.canonical()
    }

    /// Leases end whenever they like, and who holds does not notice. Only fences are of interest.
    #[must_use]
    pub fn without_time(mut self) -> Self {
        self.rules.has_time = false;
        self
    }

    /// So many members never answer. The one with the line does.
    #[must_use]
    pub fn down(mut self, down: usize) -> Self {
        let others = self.members.iter_mut().filter(|member| !member.has_line);
        others.take(down).for_each(|member| member.down = true);
        self.canonical()
    }

    fn has(&self, flaw: Flaw) -> bool {
        self.rules.flaw == Some(flaw)
    }

    fn is_majority(count: usize) -> bool {
        count > N / 2
    }

    fn count(&self, is: impl Fn(&Member) -> bool) -> usize {
        self.members.iter().filter(|member| is(member)).count()
    }

    /// The fences that some majority's answers allow: the highest of them, one answer each.
    fn highest(&self, attempt: usize) -> impl Iterator<Item = u8> {
        let answered = move |member: &Member| member.links[attempt].answered;
        let known = self.members.iter().fold(0, |known, member| known | answered(member));
        (1..16).filter(move |fence| {
            let up_to = u16::MAX >> (15 - fence);
            known & 1 << fence != 0 && Self::is_majority(self.count(|member| answered(member) & up_to != 0))
        })
    }

    /// Whether a majority answered exactly this fence.
    fn is_exact(&self, attempt: usize, fence: u8) -> bool {
        Self::is_majority(self.count(|member| member.links[attempt].answered & 1 << fence != 0))
    }

    /// Forgets what can no longer make a difference, and the order of the members, so that worlds that go on alike are one.
    fn canonical(mut self) -> Self {
        for (nth, attempt) in self.attempts.iter_mut().enumerate() {
            if attempt.over <= attempt.since {
                attempt.over = 0;
            }
            for member in &mut self.members {
                member.forget(nth, attempt, self.twins > 0);
            }
        }
        let mut order: [usize; N] = std::array::from_fn(|at| at);
        order.sort_unstable_by_key(|at| &self.members[*at]);
        self.names = Names(order.map(|at| self.names.0[at]));
        self.members = order.map(|at| self.members[at]);
        self
    }
}

impl<const N: usize> World for Quorum<N> {
    type Step = Step;

    fn name(&self) -> u128 {
        crate::name::of_plain(self)
    }

    fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        for attempt in 0..self.rules.attempts {
            self.steps_of_client(attempt, &mut steps);
        }
        for at in 0..N {
            self.steps_of_member(at, &mut steps);
        }
        steps
    }

    fn take(&self, step: &Step) -> Self {
        let mut next = self.clone();
        next.serve(step);
        next.canonical()
    }

    fn broken(&self) -> Option<String> {
        if let Some(fault) = self.fault {
            return Some(fault.to_owned());
        }
        if self.rules.has_time && self.attempts.iter().filter(|attempt| attempt.believes()).count() > 1 {
            return Some("two believe that they hold".to_owned());
        }
        let is_left = |member: &&Member| {
            member.owner.is_some_and(|owner| {
                let attempt = usize::from(owner.attempt);
                let (phase, link) = (self.attempts[attempt].phase, &member.links[attempt]);
                let wanted = self.attempts[attempt].is_live() && owner.round == link.round;
                !wanted && phase != Phase::Dead && !link.left[usize::from(owner.round)].release
            })
        };
        self.members.iter().find(is_left).map(|_| "a lock is left behind".to_owned())
    }

    /// Whatever the others do or left, the last attempt can have the lock, unless it changes its mind or stalls.
    fn is_settled(&self) -> bool {
        let last = &self.attempts[self.rules.attempts - 1];
        !self.rules.has_time || matches!(last.phase, Phase::Holding | Phase::Gone | Phase::Dead)
    }

    fn is_fair(step: &Step) -> bool {
        use Step::{ChangesItsMind, Crashes, ForgetsTheFence, LeaseEndsBeforeItCounts, RestartsEmpty};
        let is_fault = matches!(step, Crashes { .. } | ForgetsTheFence { .. } | RestartsEmpty { .. });
        !is_fault && !matches!(step, ChangesItsMind { .. } | LeaseEndsBeforeItCounts { .. })
    }
}

/// What the members are called in traces. Worlds that differ in it are the same.
#[derive(Clone, Debug)]
struct Names<const N: usize>([u8; N]);

impl<const N: usize> PartialEq for Names<N> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl<const N: usize> Eq for Names<N> {}

impl<const N: usize> Hash for Names<N> {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl fmt::Debug for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", char::from(b'A' + self.1))
    }
}
