//! What the scripts do with the line.

use super::{Flaw, TTL, WINDOW};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Request {
    /// `SET NX` and `INCR`.
    Pair,
    /// The grant script: to begin with, and to ask again.
    Ask,
    Renew,
    Release,
    /// Compare and delete; the value compared has no mark.
    NativeRelease,
    Ping,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Reply {
    Granted,
    Busy,
    /// The pair does not know; the script decides.
    AskTheScript,
    Renewed,
    NotHeld,
    Released,
    Pong,
    /// Not a reply: it comes by itself.
    Pushed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Owner {
    who: usize,
    marked: bool,
    provisional: bool,
    left: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Store {
    flaw: Option<Flaw>,
    owner: Option<Owner>,
    /// By ticket.
    line: Vec<usize>,
    /// Who got a ticket, in this order: it keeps it.
    tickets: Vec<usize>,
    /// To whom the lock was handed that has not claimed it.
    unclaimed: Option<usize>,
    struck: Vec<bool>,
    listened: Vec<bool>,
    /// Who stood before somebody that was granted the lock.
    pub(super) passed_over: Option<usize>,
    /// Whether a push is still to count nobody although it arrives.
    miscounts: bool,
}

impl Store {
    pub(super) fn new(flaw: Option<Flaw>, attempts: usize) -> Self {
        Self {
            flaw,
            owner: None,
            line: Vec::new(),
            tickets: Vec::new(),
            unclaimed: None,
            struck: vec![false; attempts],
            listened: vec![true; attempts],
            passed_over: None,
            miscounts: flaw == Some(Flaw::TrustsTheCountOfThePush),
        }
    }

    pub(super) fn is_free(&self) -> bool {
        self.owner.is_none()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.owner.is_none() && self.line.is_empty()
    }

    pub(super) fn is_listened(&self, who: usize) -> bool {
        self.listened[who]
    }

    pub(super) fn hears_of_death(&mut self, who: usize) {
        self.listened[who] = false;
    }

    /// Says whether a lease ended.
    pub(super) fn pass_time(&mut self) -> bool {
        let Some(owner) = &mut self.owner else { return false };
        owner.left -= 1;
        let ended = owner.left == 0;
        if ended {
            self.owner = None;
        }
        ended
    }

    /// The answer, and to whom the lock was handed.
    pub(super) fn serve(&mut self, who: usize, request: Request) -> (Reply, Vec<usize>) {
        let mut pushes = Vec::new();
        let owns = self.owner.is_some_and(|owner| owner.who == who);
        let reply = match request {
            Request::Pair => self.pair(who),
            Request::Ask => self.ask(who, &mut pushes),
            Request::Renew => {
                let drops = self.has(Flaw::RenewalDropsTheMark);
                match &mut self.owner {
                    Some(owner) if owns => {
                        owner.left = owner.left.max(TTL);
                        owner.marked &= !drops;
                        self.claimed_by(who);
                        Reply::Renewed
                    }
                    _ => Reply::NotHeld,
                }
            }
            Request::Release => {
                if owns {
                    self.owner = None;
                    self.claimed_by(who);
                }
                if !self.has(Flaw::ReleaseStaysInLine) {
                    self.line.retain(|other| *other != who);
                }
                if owns || !self.has(Flaw::AdvancesOnlyWhenTheOwnerLeaves) {
                    self.advance(None, &mut pushes);
                }
                Reply::Released
            }
            Request::NativeRelease if self.owner.is_some_and(|it| it.who == who && !it.marked) => {
                self.owner = None;
                Reply::Released
            }
            Request::NativeRelease => Reply::AskTheScript,
            Request::Ping => Reply::Pong,
        };
        (reply, pushes)
    }

    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    fn claimed_by(&mut self, who: usize) {
        self.unclaimed = self.unclaimed.filter(|other| *other != who);
    }

    fn pair(&mut self, who: usize) -> Reply {
        if self.owner.is_some() {
            return Reply::AskTheScript;
        }
        self.owner = Some(Owner { who, marked: false, provisional: true, left: TTL });
        if self.line.is_empty() || self.has(Flaw::PairSlipsPastTheLine) {
            self.note_order(who);
            Reply::Granted
        } else {
            Reply::AskTheScript
        }
    }

    fn ask(&mut self, who: usize, pushes: &mut Vec<usize>) -> Reply {
        self.struck[who] = false;
        self.claimed_by(who);
        if let Some(owner) = self.owner.filter(|owner| owner.who == who) {
            let others = self.line.iter().any(|other| *other != who);
            if !others || !owner.provisional && !self.has(Flaw::StepsBackWithoutTheFlag) {
                self.own(who, TTL, owner.marked);
                return Reply::Granted;
            }
            // Back to the tail, with a new ticket.
            self.owner = None;
            self.tickets.retain(|other| *other != who);
        }
        self.join(who);
        if self.owner.is_none() && (!self.has(Flaw::AdvancesOnlyWhenTheOwnerLeaves) || self.line[0] == who) {
            self.advance(Some(who), pushes);
        }
        match &mut self.owner {
            Some(owner) if owner.who == who => Reply::Granted,
            Some(owner) => {
                owner.marked = true;
                Reply::Busy
            }
            None => Reply::Busy,
        }
    }

    fn join(&mut self, who: usize) {
        if !self.tickets.contains(&who) {
            self.tickets.push(who);
        }
        if !self.line.contains(&who) {
            self.line.push(who);
            let tickets = &self.tickets;
            self.line.sort_by_key(|other| tickets.iter().position(|ticket| ticket == other));
        }
    }

    /// Gives a free lock to the first in line that can hear of it. Who asks hears of it by the answer.
    fn advance(&mut self, asking: Option<usize>, pushes: &mut Vec<usize>) {
        if let Some(late) = self.unclaimed
            && self.owner.is_none_or(|owner| owner.who != late)
        {
            self.unclaimed = None;
            self.struck[late] = true;
            self.line.retain(|other| *other != late);
        }
        while self.owner.is_none() && !self.line.is_empty() {
            let head = self.line.remove(0);
            let marked = !self.line.is_empty() && !self.has(Flaw::HandOverDropsTheMark);
            if asking == Some(head) {
                self.own(head, TTL, marked);
            } else if self.listened[head] && !self.struck[head] {
                pushes.push(head);
                if !std::mem::take(&mut self.miscounts) {
                    self.own(head, WINDOW, marked);
                    self.unclaimed = Some(head);
                }
            }
        }
    }

    fn own(&mut self, who: usize, ttl: u8, marked: bool) {
        let same = self.owner.filter(|owner| owner.who == who);
        let left = same.map_or(ttl, |owner| owner.left.max(ttl));
        self.note_order(who);
        self.line.retain(|other| *other != who);
        self.owner = Some(Owner { who, marked, provisional: false, left });
    }

    /// Nobody that stands in line, hears, and came before may be passed over, unless the lock was this one's already.
    fn note_order(&mut self, who: usize) {
        let same = self.owner.is_some_and(|owner| owner.who == who && !owner.provisional);
        let place = |who| self.tickets.iter().position(|ticket| *ticket == who).unwrap_or(usize::MAX);
        let before = |other: &usize| {
            place(*other) < place(who) && self.listened[*other] && !self.struck[*other] && !same
        };
        self.passed_over = self.passed_over.or(self.line.iter().copied().find(before));
    }
}
