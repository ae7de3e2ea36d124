//! Who stands in line, whose turn comes, and whom it passes by.

use super::store::{Key, Push, Reply, Store};
use super::{Few, Fixed, Flaw, MOST, Scope, TTL, WINDOW, Who};

/// How many connections a process may have one after the other.
pub(super) const CHANNELS: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Entry {
    pub(super) who: Who,
    /// The how-manieth of its process.
    pub(super) channel: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Unclaimed {
    entry: Entry,
    /// Whether its window ended, or somebody took it away.
    ended: bool,
    /// Whether it, or its channel, spoke since.
    heard: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Turns {
    flaw: Fixed<Option<Flaw>>,
    scope: Fixed<Scope>,
    /// By ticket.
    line: Few<Entry>,
    /// Who got a ticket, in this order.
    tickets: Few<Who>,
    /// Who came, in this order; a client that forgets its ticket does not change it.
    came: Few<Who>,
    unclaimed: Option<Unclaimed>,
    struck: [[bool; CHANNELS]; MOST],
    /// Struck, although an ask came since.
    wrongly_struck: [[bool; CHANNELS]; MOST],
    listened: [[bool; CHANNELS]; MOST],
    dead: [bool; MOST],
    /// Windows that were given to a dead process since it was last heard of.
    wasted: [u8; MOST],
    /// Who stood before somebody that was granted the lock.
    passed_over: Option<Who>,
    /// Who was dropped although it lives.
    pub(super) dropped: bool,
    /// Whether a push is still to count nobody although it arrives.
    miscounts: bool,
    pub(super) fault: Option<&'static str>,
}

impl Turns {
    pub(super) fn new(flaw: Option<Flaw>, scope: Scope) -> Self {
        let mut listened = [[false; CHANNELS]; MOST];
        listened.iter_mut().take(scope.processes()).for_each(|channels| channels[0] = true);
        Self {
            flaw: Fixed(flaw),
            scope: Fixed(scope),
            line: Few::new(),
            tickets: Few::new(),
            came: Few::new(),
            unclaimed: None,
            struck: [[false; CHANNELS]; MOST],
            wrongly_struck: [[false; CHANNELS]; MOST],
            listened,
            dead: [false; MOST],
            wasted: [0; MOST],
            passed_over: None,
            dropped: false,
            miscounts: flaw == Some(Flaw::TrustsTheCountOfThePush),
            fault: None,
        }
    }

    fn has(&self, flaw: Flaw) -> bool {
        self.flaw.0 == Some(flaw)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.line.is_empty()
    }

    pub(super) fn head(&self) -> Option<Entry> {
        self.line.first().copied()
    }

    pub(super) fn first(&self) -> Option<Who> {
        self.head().map(|entry| entry.who)
    }

    pub(super) fn has_others(&self, who: Who) -> bool {
        self.line.iter().any(|entry| entry.who != who)
    }

    pub(super) fn stands(&self, who: Who) -> bool {
        self.line.iter().any(|entry| entry.who == who)
    }

    pub(super) fn is_unclaimed(&self) -> bool {
        self.unclaimed.is_some()
    }

    pub(super) fn is_listened(&self, process: usize, channel: u8) -> bool {
        self.listened[process][channel as usize]
    }

    pub(super) fn listens(&mut self, process: usize, channel: u8, is: bool) {
        self.listened[process][channel as usize] = is;
    }

    pub(super) fn dies(&mut self, process: usize) {
        self.dead[process] = true;
    }

    pub(super) fn forget(&mut self) {
        self.line.clear();
        self.unclaimed = None;
        self.struck.iter_mut().for_each(|channels| *channels = [false; CHANNELS]);
        self.wasted.iter_mut().for_each(|count| *count = 0);
    }

    pub(super) fn forget_listeners(&mut self) {
        self.listened.iter_mut().for_each(|channels| *channels = [false; CHANNELS]);
    }

    /// Something came from it; an ask also tells its channel.
    pub(super) fn hears_from(&mut self, who: Who, channel: Option<u8>) {
        let scope = self.scope.0;
        let process = scope.process_of(who);
        self.wasted[process] = 0;
        if let Some(it) = &mut self.unclaimed {
            let shares = scope.process_of(it.entry.who) == process && Some(it.entry.channel) == channel;
            it.heard |= it.entry.who == who || shares;
        }
    }

    pub(super) fn owner_expires(&mut self, who: Option<Who>) {
        if let Some(it) = &mut self.unclaimed
            && Some(it.entry.who) == who
        {
            it.ended = true;
        }
    }

    /// Whoever asks lives, and so does whoever shares its channel.
    pub(super) fn is_claimed_from(&mut self, who: Who, channel: u8) {
        self.is_claimed_by(who);
        let kept = self.has(Flaw::ClaimLeavesTheRecord) || self.has(Flaw::SiblingsAreStruckAllTheSame);
        let process = self.scope.0.process_of(who);
        let scope = self.scope.0;
        self.unclaimed = self
            .unclaimed
            .filter(|it| kept || scope.process_of(it.entry.who) != process || it.entry.channel != channel);
    }

    pub(super) fn is_claimed_by(&mut self, who: Who) {
        if !self.has(Flaw::ClaimLeavesTheRecord) {
            self.unclaimed = self.unclaimed.filter(|it| it.entry.who != who);
        }
    }

    pub(super) fn lift(&mut self, who: Who, channel: u8) {
        let (process, channel) = (self.scope.0.process_of(who), channel as usize);
        if self.has(Flaw::StrikeStays) {
            self.wrongly_struck[process][channel] = self.struck[process][channel];
        } else {
            self.struck[process][channel] = false;
        }
    }

    pub(super) fn leave(&mut self, who: Who) {
        self.line.retain(|entry| entry.who != who);
    }

    /// Says whether it was not there.
    pub(super) fn join(&mut self, who: Who, channel: u8, knows: bool, says: bool) -> bool {
        let stood = self.stands(who);
        for (order, keeps) in [(&mut self.tickets, says), (&mut self.came, knows)] {
            if !(stood || keeps) {
                order.retain(|other| *other != who);
            }
            if !order.contains(&who) {
                order.push(who);
            }
        }
        self.leave(who);
        self.line.push(Entry { who, channel });
        let tickets = &self.tickets;
        self.line.sort_by_key(|entry| tickets.iter().position(|ticket| *ticket == entry.who));
        !stood
    }

    /// What `NUMSUB` says is not 0, and no hand-over went unclaimed.
    fn hears(&self, entry: Entry) -> bool {
        let (process, channel) = (self.scope.0.process_of(entry.who), entry.channel as usize);
        let listened = if self.has(Flaw::ReusesTheChannel) {
            self.listened[process].contains(&true)
        } else {
            self.listened[process][channel]
        };
        listened && !self.struck[process][channel]
    }

    /// Nobody that stands in line, hears, and came before may be passed over.
    pub(super) fn note_order(&mut self, who: Who) {
        if self.has(Flaw::OnlyTheFirstJoinerMarksAndPairsSlip) {
            return;
        }
        let place = |who| self.came.iter().position(|other| *other == who).unwrap_or(usize::MAX);
        let before =
            |entry: &&Entry| place(entry.who) < place(who) && entry.who != who && self.hears(**entry);
        let found = self.line.iter().find(before).map(|entry| entry.who);
        self.passed_over = self.passed_over.or(found);
    }

    pub(super) fn passed_over(&self) -> Option<Who> {
        self.passed_over
    }

    fn strike(&mut self, late: Unclaimed) {
        if !late.ended {
            self.fault = Some("a process is struck that claimed in time");
        } else if late.heard {
            self.fault = Some("a process is struck that was heard");
        }
        self.unclaimed = None;
        let process = self.scope.0.process_of(late.entry.who);
        self.struck[process][late.entry.channel as usize] = true;
    }

    fn drops(&mut self, entry: Entry) {
        let process = self.scope.0.process_of(entry.who);
        self.dropped |= !self.dead[process];
        if self.wrongly_struck[process][entry.channel as usize] {
            self.fault = Some("a waiter is dropped that asked again");
        }
    }

    fn is_handed(&mut self, entry: Entry) {
        let process = self.scope.0.process_of(entry.who);
        if !self.listened[process][entry.channel as usize] {
            self.fault = Some("it is handed to a connection that is known to be gone");
        }
        if self.dead[process] {
            self.wasted[process] += 1;
            if self.wasted[process] > 1 {
                self.fault = Some("a dead process costs a second window");
            }
        }
        // To show that other flaw, what a native release leaves must not matter.
        if !(self.has(Flaw::NoUnclaimedRecord) || self.has(Flaw::HandOverDropsTheMark)) {
            self.unclaimed = Some(Unclaimed { entry, ended: false, heard: false });
        }
    }
}

impl Store {
    /// Gives a free lock to the first in line that can hear of it. Who asks hears of it by the answer.
    pub(super) fn advance(&mut self, asking: Option<Who>, pushes: &mut Vec<Push>) {
        if let Some(late) = self.turns.unclaimed
            && !self.owns(late.entry.who)
        {
            self.turns.strike(late);
        }
        while self.key == Key::Free
            && let Some(head) = self.turns.head()
        {
            let hears = self.turns.hears(head);
            self.turns.line.remove(0);
            let marked = !self.turns.is_empty() && !self.has(Flaw::HandOverDropsTheMark);
            if asking == Some(head.who) {
                self.own(head.who, TTL, marked);
            } else if hears {
                pushes.push((head.who, head.channel, Reply::Pushed));
                if !std::mem::take(&mut self.turns.miscounts) {
                    self.own(head.who, WINDOW, marked);
                    self.turns.is_handed(head);
                }
            } else {
                self.turns.drops(head);
            }
        }
    }
}
