//! What the commands and scripts do at the server.

use super::fence::Fence;
use super::turn::Turns;
use super::{Few, Fixed, Flaw, Scope, TTL, Who};

/// How long an ask may be on its way.
pub(super) const NOT_AFTER: u8 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Request {
    /// `SET NX`, and then `INCR`.
    Pair,
    /// The second command of the pair; whether the first one succeeded.
    PairGoesOn(bool),
    /// The grant script: to begin with, and to ask again.
    Ask {
        /// Whether the client knows a ticket.
        knows: bool,
        /// Whether it says so.
        says: bool,
    },
    Renew,
    Release,
    /// Compare and delete; the value compared has no mark.
    NativeRelease,
    Ping,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Reply {
    Granted,
    Busy {
        /// How long the holder's lease lasts still, said to who stands first.
        first: Option<u8>,
        /// Whether it stood in line no longer.
        rejoined: bool,
    },
    /// The pair does not know; the script decides.
    AskTheScript,
    TooLate,
    Renewed,
    Lost,
    Released {
        /// Whether it owned the key until now.
        owned: bool,
    },
    /// Nothing was deleted.
    Missed,
    Pong,
    /// Not a reply: the lock was handed over.
    Pushed,
    /// Not a reply: who waits stands first now, and the holder's lease lasts so long.
    First(u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Owner {
    pub(super) who: Who,
    pub(super) marked: bool,
    pub(super) provisional: bool,
    pub(super) left: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key {
    Free,
    Ours(Owner),
    Stranger { marked: bool, left: u8 },
}

/// Something that comes by itself, for an attempt and on a channel.
pub(super) type Push = (Who, u8, Reply);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Store {
    pub(super) flaw: Fixed<Option<Flaw>>,
    pub(super) scope: Fixed<Scope>,
    pub(super) key: Key,
    pub(super) fence: Fence,
    pub(super) turns: Turns,
    /// Attempts that owned the key when the state was lost: they may believe a while longer.
    pub(super) orphans: Few<Who>,
    pub(super) fault: Option<&'static str>,
}

impl Store {
    pub(super) fn new(flaw: Option<Flaw>, scope: Scope) -> Self {
        Self {
            flaw: Fixed(flaw),
            scope: Fixed(scope),
            key: Key::Free,
            fence: Fence::default(),
            turns: Turns::new(flaw, scope),
            orphans: Few::new(),
            fault: None,
        }
    }

    pub(super) fn has(&self, flaw: Flaw) -> bool {
        self.flaw.0 == Some(flaw)
    }

    pub(super) fn owner(&self) -> Option<Owner> {
        if let Key::Ours(owner) = self.key { Some(owner) } else { None }
    }

    pub(super) fn owns(&self, who: Who) -> bool {
        self.owner().is_some_and(|owner| owner.who == who)
    }

    pub(super) fn left(&self) -> u8 {
        match self.key {
            Key::Free => 0,
            Key::Ours(Owner { left, .. }) | Key::Stranger { left, .. } => left,
        }
    }

    /// Says whether a lease ended.
    pub(super) fn pass_time(&mut self) -> bool {
        match &mut self.key {
            Key::Free => return false,
            Key::Ours(Owner { left, .. }) | Key::Stranger { left, .. } => *left -= 1,
        }
        let ended = self.left() == 0;
        if ended {
            self.turns.owner_expires(self.owner().map(|owner| owner.who));
            self.key = Key::Free;
        }
        ended
    }

    /// Whoever owns the key keeps its belief for a while.
    pub(super) fn forget_the_owner(&mut self) {
        if let Some(owner) = self.owner() {
            self.orphan(owner.who);
            self.turns.owner_expires(Some(owner.who));
        }
        self.key = Key::Free;
    }

    pub(super) fn orphan(&mut self, who: Who) {
        if !self.orphans.contains(&who) {
            self.orphans.push(who);
            self.orphans.sort_unstable();
        }
    }

    pub(super) fn forget_everything(&mut self) {
        self.forget_the_owner();
        self.fence.forget();
        self.turns.forget();
    }

    /// The answer; none when there is more to do for this request.
    pub(super) fn serve(
        &mut self,
        who: Who,
        channel: u8,
        age: u8,
        request: &mut Request,
        pushes: &mut Vec<Push>,
    ) -> Option<Reply> {
        match *request {
            Request::Ask { .. } if age <= NOT_AFTER => self.turns.hears_from(who, Some(channel)),
            Request::Renew | Request::Release => self.turns.hears_from(who, None),
            _ => {}
        }
        let first = self.turns.first();
        let reply = match *request {
            Request::Pair => {
                *request = Request::PairGoesOn(self.pair_begins(who));
                return None;
            }
            Request::PairGoesOn(begun) => return Some(self.pair_goes_on(who, begun)),
            Request::NativeRelease => return Some(self.native_release(who)),
            Request::Ping => return Some(Reply::Pong),
            Request::Ask { .. } if age > NOT_AFTER && !self.has(Flaw::JoinWithoutNotAfter) => {
                return Some(Reply::TooLate);
            }
            Request::Ask { knows, says } => self.ask(who, channel, knows, says, pushes),
            Request::Renew => self.renew(who, pushes),
            Request::Release => self.release(who, pushes),
        };
        self.fence.settle(!self.turns.is_empty(), self.flaw.0);
        if self.fence.has_endless() {
            self.fault = self.fault.or(Some("a side key has no end"));
        }
        self.tell_the_first(first, who, pushes);
        Some(reply)
    }

    fn pair_begins(&mut self, who: Who) -> bool {
        if self.has(Flaw::PairCountsFirst) {
            return self.fence.count(who);
        }
        self.take_natively(who)
    }

    fn pair_goes_on(&mut self, who: Who, begun: bool) -> Reply {
        let both = if self.has(Flaw::PairCountsFirst) {
            begun & self.take_natively(who)
        } else {
            begun & self.fence.count(who)
        };
        if !both {
            return Reply::AskTheScript;
        }
        if self.fence.was_overtaken(who) && !self.orphans.contains(&who) {
            self.fault = self.fault.or(Some("a fence does not rise"));
        }
        Reply::Granted
    }

    fn take_natively(&mut self, who: Who) -> bool {
        if self.key != Key::Free {
            return false;
        }
        self.key = Key::Ours(Owner { who, marked: false, provisional: true, left: TTL });
        if self.has(Flaw::PairSlipsPastTheLine) {
            self.turns.note_order(who);
        }
        true
    }

    fn native_release(&mut self, who: Who) -> Reply {
        match self.owner() {
            Some(owner) if owner.who == who && !owner.marked => {
                self.key = Key::Free;
                Reply::Released { owned: true }
            }
            _ => Reply::Missed,
        }
    }

    fn renew(&mut self, who: Who, pushes: &mut Vec<Push>) -> Reply {
        let owned = self.owns(who);
        if owned || !self.has(Flaw::LateClaimLeavesTheRecord) {
            self.turns.is_claimed_by(who);
        }
        let drops = self.has(Flaw::RenewalDropsTheMark);
        match &mut self.key {
            Key::Ours(owner) if owned => {
                owner.left = owner.left.max(TTL);
                owner.marked &= !drops;
                owner.provisional = false;
                Reply::Renewed
            }
            _ => {
                self.advance(None, pushes);
                Reply::Lost
            }
        }
    }

    fn release(&mut self, who: Who, pushes: &mut Vec<Push>) -> Reply {
        let owned = self.owns(who);
        if owned {
            self.key = Key::Free;
        }
        self.turns.is_claimed_by(who);
        if !self.has(Flaw::ReleaseStaysInLine) {
            self.turns.leave(who);
        }
        if owned || !self.has(Flaw::AdvancesOnlyWhenTheOwnerLeaves) {
            self.advance(None, pushes);
        }
        Reply::Released { owned }
    }

    fn ask(&mut self, who: Who, channel: u8, knows: bool, says: bool, pushes: &mut Vec<Push>) -> Reply {
        self.turns.lift(who, channel);
        self.turns.is_claimed_from(who, channel);
        let mut steps_back = false;
        if let Some(owner) = self.owner().filter(|owner| owner.who == who) {
            steps_back = owner.provisional || self.has(Flaw::StepsBackWithoutTheFlag);
            if !(steps_back && self.turns.has_others(who)) {
                self.own(who, TTL, owner.marked);
                return Reply::Granted;
            }
            self.key = Key::Free;
        }
        let joins_others = !self.turns.is_empty();
        let tail = self.has(Flaw::StepsBackWithoutTheFlag) && steps_back;
        let rejoined = self.turns.join(who, channel, knows && !tail, says && !tail);
        let may_advance = !self.has(Flaw::AdvancesOnlyWhenTheOwnerLeaves) || self.turns.first() == Some(who);
        if may_advance {
            self.advance(Some(who), pushes);
        }
        if self.owns(who) {
            return Reply::Granted;
        }
        let marks_strangers = self.has(Flaw::MarksAStranger);
        let only_the_first =
            self.has(Flaw::OnlyTheFirstJoinerMarks) || self.has(Flaw::OnlyTheFirstJoinerMarksAndPairsSlip);
        if !(joins_others && only_the_first) {
            match &mut self.key {
                Key::Ours(owner) => owner.marked = true,
                Key::Stranger { marked, .. } => *marked |= marks_strangers,
                Key::Free => {}
            }
        }
        let is_first = self.scope.0.patient && self.turns.first() == Some(who);
        Reply::Busy { first: is_first.then(|| self.left()), rejoined: rejoined && knows }
    }

    /// Makes it the owner, or lets it own for longer.
    pub(super) fn own(&mut self, who: Who, ttl: u8, marked: bool) {
        let same = self.owner().filter(|owner| owner.who == who);
        let left = same.map_or(ttl, |owner| owner.left.max(ttl));
        self.turns.leave(who);
        if same.is_none_or(|owner| owner.provisional) {
            self.turns.note_order(who);
        }
        self.orphans.retain(|other| *other != who);
        self.key = Key::Ours(Owner { who, marked, provisional: false, left });
        self.fence.rise(!self.turns.is_empty());
    }

    /// Who stands first now and did not before hears when the holder's lease ends; who asks hears it by the answer.
    fn tell_the_first(&self, before: Option<Who>, asking: Who, pushes: &mut Vec<Push>) {
        if !self.scope.0.patient || self.has(Flaw::TellsNoNewHead) || self.key == Key::Free {
            return;
        }
        let handed_over = pushes.iter().any(|push| push.2 == Reply::Pushed);
        if self.has(Flaw::OnlyAHandOverTellsTheHead) && !handed_over {
            return;
        }
        if let Some(entry) = self.turns.head()
            && Some(entry.who) != before
            && entry.who != asking
        {
            pushes.push((entry.who, entry.channel, Reply::First(self.left())));
        }
    }
}
