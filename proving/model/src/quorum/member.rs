//! A member: how it serves requests, and the messages on their way to it.

use super::attempt::{Attempt, Phase};
use super::{Flaw, MOST};

/// Who owns the key at a member, and by which of its calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Owner {
    pub(super) attempt: u8,
    pub(super) round: u8,
    /// The latest call that was served. The lease ends a ttl after it was served, or later.
    pub(super) call: u8,
}

/// What a member that restarted must wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Quarantine {
    /// The fence that it lost.
    pub(super) lost: u8,
    /// How many calls each attempt had sent when it restarted.
    pub(super) sent: [u8; MOST],
}

/// Between one attempt and one member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Link {
    /// The round that is asked for: one more than was released here.
    pub(super) round: u8,
    /// The call that asked for it.
    pub(super) call: u8,
    /// Which fences were answered in this round, a bit for each.
    pub(super) answered: u16,
    /// Whether this round's grant was served before.
    pub(super) served: bool,
    /// Whether the latest renewal was confirmed.
    pub(super) renewed: bool,
    /// What is left of each round that was given up.
    pub(super) left: [Remains; 2],
}

/// What is still on its way of a round that was given up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Remains {
    /// A call that makes an owner.
    pub(super) grant: bool,
    /// It would be served for a second time.
    pub(super) again: bool,
    /// A release, sent again until none of these calls can come after it.
    pub(super) release: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Member {
    pub(super) owner: Option<Owner>,
    pub(super) fence: u8,
    pub(super) quarantine: Option<Quarantine>,
    /// Answers nothing, ever.
    pub(super) down: bool,
    /// Those who must wait do so here.
    pub(super) has_line: bool,
    pub(super) links: [Link; MOST],
}

impl Member {
    pub(super) fn answers(&self) -> bool {
        !self.down && self.quarantine.is_none()
    }

    pub(super) fn is_owned(&self, attempt: usize) -> bool {
        let round = self.links[attempt].round;
        self.owner.is_some_and(|it| usize::from(it.attempt) == attempt && it.round == round)
    }

    /// Owner none or a: owner = a, and the next fence, or `t` if that is more.
    pub(super) fn grant(&mut self, attempt: usize, t: u8, flaw: Option<Flaw>) {
        let next = self.fence + u8::from(flaw != Some(Flaw::NoPlusOne));
        self.fence = next.max(t).max(1);
        let Link { round, call, .. } = self.links[attempt];
        self.own(attempt, round, call, flaw == Some(Flaw::GrantShortens));
        self.links[attempt].answered |= 1 << self.fence;
        self.links[attempt].served = true;
    }

    /// Owner a: at least this fence.
    pub(super) fn raise(&mut self, attempt: usize, to: u8, flaw: Option<Flaw>) {
        self.fence = self.fence.max(to);
        self.links[attempt].answered |= 1 << self.fence;
        if flaw == Some(Flaw::AnyAnswerCounts) {
            self.links[attempt].answered |= 1 << to;
        }
    }

    /// Owner a, or none: owner = a, and at least its fence.
    pub(super) fn renew(&mut self, attempt: usize, of: &Attempt, call: u8, flaw: Option<Flaw>) {
        if self.owner.is_none() && flaw != Some(Flaw::JoinsWithoutRaising) {
            self.fence = self.fence.max(of.fence);
        }
        self.own(attempt, self.links[attempt].round, call, false);
        self.links[attempt].renewed |= call == of.renewal && call > of.since;
    }

    /// A grant of a round that was given up.
    pub(super) fn grant_late(&mut self, attempt: usize, round: u8, flaw: Option<Flaw>) {
        self.fence += u8::from(flaw != Some(Flaw::NoPlusOne));
        self.own(attempt, round, 0, false);
        self.links[attempt].left[usize::from(round)].again = true;
    }

    /// Owner a: nobody. With `for_good` it comes after all that could make an owner: on the same connection, or past the last
    /// not-after.
    pub(super) fn release(&mut self, attempt: usize, round: u8, for_good: bool, flaw: Option<Flaw>) {
        if self.owner.is_some_and(|it| usize::from(it.attempt) == attempt && it.round == round) {
            self.free(flaw);
        }
        let left = &mut self.links[attempt].left[usize::from(round)];
        if for_good {
            let grant = left.grant && flaw == Some(Flaw::NoNotAfter);
            *left = Remains { grant, again: grant && left.again, release: false };
        }
    }

    pub(super) fn free(&mut self, flaw: Option<Flaw>) {
        self.owner = None;
        if flaw == Some(Flaw::FenceInsideTheKey) {
            self.fence = 0;
        }
    }

    /// What no longer is awaited here; a release follows if it is to.
    pub(super) fn give_up(&mut self, attempt: usize, of: &Attempt, release: bool) {
        let link = &mut self.links[attempt];
        let left = &mut link.left[usize::from(link.round)];
        // The latest renewal makes an owner as well.
        let again = link.served && of.renewal == 0;
        *left = Remains { grant: true, again, release };
        let Link { round, left, .. } = *link;
        *link = Link { round, left, ..Link::default() };
    }

    /// Forgets what can no longer make a difference.
    pub(super) fn forget(&mut self, attempt: usize, of: &Attempt, twins: bool) {
        let number = u8::try_from(attempt).expect("few attempts");
        let owner = self.owner.filter(|it| it.attempt == number);
        let link = &mut self.links[attempt];
        if of.phase == Phase::Raising {
            link.answered &= u16::MAX << of.fence;
        }
        for (round, left) in (0..).zip(&mut link.left) {
            left.grant &= !self.down && (twins || !left.again);
            left.again &= left.grant;
            left.release &= left.grant || owner.is_some_and(|it| it.round == round);
        }
        if let Some(owner) = &mut self.owner
            && owner.attempt == number
            && (owner.call < of.since || !of.is_live() || owner.round != link.round)
        {
            owner.call = 0;
        }
        if let Some(quarantine) = &mut self.quarantine
            && (quarantine.sent[attempt] <= of.since || !of.is_live())
        {
            quarantine.sent[attempt] = 0;
        }
    }

    fn own(&mut self, attempt: usize, round: u8, call: u8, shortens: bool) {
        let attempt = u8::try_from(attempt).expect("few attempts");
        let same = self.owner.filter(|it| !shortens && (it.attempt, it.round) == (attempt, round));
        let call = same.map_or(call, |it| it.call.max(call));
        self.owner = Some(Owner { attempt, round, call });
    }
}
