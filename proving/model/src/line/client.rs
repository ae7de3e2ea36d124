//! An attempt that waits in line, and the process that speaks for it.

use std::iter;

use arrayvec::ArrayVec;

use super::store::{NOT_AFTER, Reply, Request};
use super::{Few, Flaw, Scope, TTL, WINDOW, Who};

/// What is under way in one direction.
pub(super) type Queue<T> = ArrayVec<T, 6>;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    #[default]
    Idle,
    /// Asked, and nothing said yet.
    Asking,
    Waiting,
    Holding,
    Leaving,
    /// Released, but an ask on a broken connection may still arrive.
    Lingering,
    Gone,
    Dead,
}

/// What is under way, for which attempt, and how long ago it was sent; with an answer, the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Message<T> {
    pub(super) who: Who,
    pub(super) what: T,
    pub(super) age: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Process {
    pub(super) alive: bool,
    /// To the store, in order.
    pub(super) up: Queue<Message<Request>>,
    /// From the store, in order.
    pub(super) down: Queue<Message<Reply>>,
    /// What was sent on the connection before and may still arrive, in order.
    pub(super) stray: Queue<Message<Request>>,
    /// The how-manieth connection it is, and its channel.
    pub(super) channel: u8,
    /// How long ago the latest command was sent that is known to have been answered before whatever is read next.
    pub(super) start: u8,
    /// How far the clock of the server was set forward since it was compared.
    pub(super) clock_off: u8,
}

impl Process {
    pub(super) fn new() -> Self {
        Self {
            alive: true,
            up: Queue::new(),
            down: Queue::new(),
            stray: Queue::new(),
            channel: 0,
            start: TTL,
            clock_off: 0,
        }
    }

    pub(super) fn is_silent(&self) -> bool {
        self.up.is_empty() && self.down.is_empty() && self.stray.is_empty()
    }

    pub(super) fn pass_time(&mut self) {
        let age = |age: &mut u8| *age = TTL.min(*age + 1);
        self.up.iter_mut().chain(&mut self.stray).for_each(|message| age(&mut message.age));
        self.down.iter_mut().for_each(|message| age(&mut message.age));
        age(&mut self.start);
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Attempt {
    pub(super) phase: Phase,
    /// For how long it believes that it holds.
    pub(super) believed: u8,
    /// Whether an answer is awaited.
    pub(super) awaiting: bool,
    /// How long ago it first asked.
    asked: u8,
    pub(super) joined: bool,
    /// Whether it knows its ticket.
    knows: bool,
    /// Whether it has thrown its ticket away.
    anew: bool,
    /// In how long it is to ask again because the holder's lease ends then.
    alarm: Option<u8>,
    /// Whether it is to ask again at once.
    pub(super) told: bool,
    /// How long ago a connection was dropped on which an ask may still be under way.
    stray: Option<u8>,
    /// Whether it leaves what it held.
    held: bool,
    /// Whether an ask may still arrive after the release that was sent.
    again: bool,
    /// Whether it began with a pair that was refused.
    by_pair: bool,
}

/// What an attempt may do of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Move {
    Pair,
    Ask,
    AskAgain,
    Ping,
    Renew,
    ReleaseNatively,
    Release,
}

impl Attempt {
    pub(super) fn moves(&self, scope: Scope, flaw: Option<Flaw>, start: u8, asks_for_all: bool) -> Few<Move> {
        if self.awaiting {
            return Few::new();
        }
        match self.phase {
            Phase::Idle if scope.pair => [Move::Pair, Move::Ask].into_iter().collect(),
            Phase::Idle => iter::once(Move::Ask).collect(),
            Phase::Asking => iter::once(Move::AskAgain).collect(),
            Phase::Waiting => {
                let now_and_then = !scope.patient && asks_for_all && start > 0 && scope.time;
                // To show that one flaw, no time need pass.
                let restless = flaw == Some(Flaw::StepsBackWithoutTheFlag);
                let mut moves = Few::new();
                if self.told || self.alarm == Some(0) || now_and_then || restless {
                    moves.push(Move::AskAgain);
                }
                if scope.pings && start > 0 {
                    moves.push(Move::Ping);
                }
                moves
            }
            Phase::Holding => {
                let natively = !self.joined
                    || matches!(flaw, Some(Flaw::HandOverDropsTheMark | Flaw::NativeReleaseAfterJoining));
                let mut moves = Few::new();
                moves.push(if natively { Move::ReleaseNatively } else { Move::Release });
                if self.believed > 0 && self.believed < TTL {
                    moves.push(Move::Renew);
                }
                moves
            }
            // The native release missed.
            Phase::Leaving => iter::once(Move::Release).collect(),
            Phase::Lingering if self.stray.is_none() => iter::once(Move::Release).collect(),
            Phase::Lingering | Phase::Gone | Phase::Dead => Few::new(),
        }
    }

    pub(super) const fn is_in_want(&self) -> bool {
        matches!(self.phase, Phase::Asking | Phase::Waiting)
    }

    /// What is to be sent for it.
    pub(super) fn makes(&mut self, it: Move, flaw: Option<Flaw>) -> Request {
        self.awaiting = true;
        match it {
            Move::Pair | Move::Ask if self.phase == Phase::Idle => {
                (self.phase, self.asked, self.by_pair) = (Phase::Asking, 0, it == Move::Pair);
                if it == Move::Pair { Request::Pair } else { self.ask(flaw) }
            }
            Move::Pair | Move::Ask | Move::AskAgain => self.ask(flaw),
            Move::Ping => Request::Ping,
            Move::Renew => Request::Renew,
            Move::ReleaseNatively => self.leaves(Request::NativeRelease),
            Move::Release => self.leaves(Request::Release),
        }
    }

    fn ask(&mut self, flaw: Option<Flaw>) -> Request {
        (self.told, self.alarm) = (false, None);
        let says = self.knows && !self.anew && flaw != Some(Flaw::ForgetsTheTicket);
        Request::Ask { knows: self.knows, says }
    }

    /// A call under way is no longer wanted, but goes on.
    fn leaves(&mut self, request: Request) -> Request {
        let (joined, stray) = (self.joined, self.stray);
        // When it is answered says nothing of when it was served: what counts is when it was sent.
        let again = stray.is_some();
        let held = self.held || self.phase == Phase::Holding;
        *self = Self { phase: Phase::Leaving, awaiting: true, joined, stray, again, held, ..Self::default() };
        request
    }

    pub(super) fn gives_up(&mut self, flaw: Option<Flaw>) -> Request {
        let natively = self.by_pair && !self.joined && !self.awaiting && flaw == Some(Flaw::NativeGivingUp);
        self.leaves(if natively { Request::NativeRelease } else { Request::Release })
    }

    /// Its connection broke; whether what it sent may have been an ask.
    pub(super) fn loses_the_connection(&mut self) {
        if self.awaiting && self.phase != Phase::Lingering {
            self.stray = Some(0);
        }
        self.awaiting = false;
        self.told |= self.phase == Phase::Waiting;
    }

    /// Says whether its siblings are to ask again.
    pub(super) fn hears(&mut self, reply: Reply, sent: u8, flaw: Option<Flaw>) -> bool {
        self.awaiting = false;
        let lease = TTL.saturating_sub(sent);
        match (reply, self.phase) {
            (Reply::Busy { first, rejoined }, Phase::Asking | Phase::Waiting) => {
                (self.phase, self.joined, self.knows, self.anew) = (Phase::Waiting, true, true, false);
                self.alarm = first;
                return rejoined;
            }
            (Reply::TooLate, Phase::Waiting) => self.told = true,
            (Reply::Granted, Phase::Asking | Phase::Waiting) => {
                if lease > 0 {
                    self.holds(lease);
                } else {
                    self.told = true;
                }
            }
            // A lease that was given up for lost does not come back.
            (Reply::Granted | Reply::Renewed, Phase::Holding) if self.believed > 0 => {
                self.believed = self.believed.max(lease);
            }
            (Reply::Lost, Phase::Holding) => {
                self.believed = 0;
                return true;
            }
            (Reply::Released { owned }, Phase::Leaving) => {
                let siblings = self.held && !owned;
                let stray = self.stray;
                let again = self.again && flaw != Some(Flaw::GivesUpOnce);
                *self = Self {
                    phase: if again { Phase::Lingering } else { Phase::Gone },
                    stray,
                    ..Self::default()
                };
                return siblings;
            }
            // What was asked or renewed before it left; the answer to the release comes after it.
            (_, Phase::Leaving) if reply != Reply::Missed => self.awaiting = true,
            _ => {}
        }
        false
    }

    pub(super) fn dies(&mut self) {
        *self = Self { phase: Phase::Dead, ..Self::default() };
    }

    /// Whether nothing will make it ask again.
    pub(super) const fn sleeps(&self) -> bool {
        matches!(self.phase, Phase::Waiting) && !self.told && !self.awaiting && self.alarm.is_none()
    }

    fn holds(&mut self, lease: u8) {
        (self.phase, self.believed, self.told, self.alarm) = (Phase::Holding, lease, false, None);
    }

    /// Says whether it answers by a release.
    pub(super) fn hears_the_push(&mut self, age: u8, start: u8, clock_off: u8, flaw: Option<Flaw>) -> bool {
        if !self.is_in_want() {
            return false;
        }
        self.joined = true;
        let lease = match flaw {
            Some(Flaw::CountsTheTtlAtOnce) => TTL.saturating_sub(start.min(self.asked)),
            Some(Flaw::CountsFromThePush) => WINDOW,
            Some(Flaw::CountsByTheServersClock) => (WINDOW + clock_off).saturating_sub(age),
            _ => WINDOW.saturating_sub(start.min(self.asked)),
        };
        if lease > 0 {
            self.holds(lease);
        } else if flaw == Some(Flaw::ReleasesALatePush) && !self.awaiting {
            (self.phase, self.anew, self.awaiting) = (Phase::Asking, true, true);
            return true;
        } else {
            self.told = true;
        }
        false
    }

    pub(super) fn hears_that_it_is_first(&mut self, left: u8) {
        if self.is_in_want() {
            self.alarm = Some(left);
        }
    }

    pub(super) fn pass_time(&mut self) {
        self.believed = self.believed.saturating_sub(1);
        self.alarm = self.alarm.map(|left| left.saturating_sub(1));
        self.stray = self.stray.map(|age| age + 1).filter(|age| *age <= NOT_AFTER);
        if self.is_in_want() {
            self.asked = TTL.min(self.asked + 1);
        }
    }
}
