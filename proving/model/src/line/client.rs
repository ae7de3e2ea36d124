//! An attempt that waits in line.

use super::store::{Reply, Request};
use super::{Flaw, Step, TTL, WINDOW};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    #[default]
    Idle,
    /// Asked, and nothing said yet.
    Asking,
    Waiting,
    Holding,
    Leaving,
    Gone,
    Dead,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Client {
    pub(super) phase: Phase,
    /// For how long it believes that it holds.
    pub(super) believed: u8,
    /// To the store, in order.
    pub(super) up: Vec<Request>,
    /// From the store, in order.
    pub(super) down: Vec<Reply>,
    /// For how long the answer to the last call has been awaited.
    awaiting: Option<u8>,
    /// How long ago the latest command was sent that is known to have been answered before whatever is read next.
    start: u8,
    /// Replies to read over: they answer what is no longer wanted.
    unwanted: u8,
    joined: bool,
}

impl Client {
    pub(super) fn steps(&self, at: usize, flaw: Option<Flaw>, steps: &mut Vec<Step>) {
        if self.awaiting.is_some() {
            return;
        }
        match self.phase {
            Phase::Idle => steps.extend([Step::AsksByThePair(at), Step::AsksInTheScript(at)]),
            Phase::Asking => steps.push(Step::AsksAgain(at)),
            // To show that one flaw, no time need pass.
            Phase::Waiting if self.start > 0 || flaw == Some(Flaw::StepsBackWithoutTheFlag) => {
                steps.extend([Step::AsksAgain(at), Step::Pings(at)]);
            }
            Phase::Waiting => {}
            Phase::Holding => {
                if self.believed > 0 {
                    steps.push(Step::Renews(at));
                }
                let native = !self.joined || flaw == Some(Flaw::HandOverDropsTheMark);
                steps.push(if native { Step::ReleasesNatively(at) } else { Step::Releases(at) });
            }
            // The native release missed.
            Phase::Leaving => steps.push(Step::Releases(at)),
            Phase::Gone | Phase::Dead => {}
        }
    }

    pub(super) fn asks(&mut self, request: Request) {
        if self.phase == Phase::Idle {
            (self.phase, self.start) = (Phase::Asking, 0);
        }
        self.calls(request);
    }

    pub(super) fn calls(&mut self, request: Request) {
        self.up.push(request);
        self.awaiting = Some(0);
    }

    /// A call under way is no longer wanted, but goes on.
    pub(super) fn leaves(&mut self, request: Request) {
        self.unwanted += u8::from(self.awaiting.is_some());
        (self.phase, self.believed, self.start) = (Phase::Leaving, 0, TTL);
        self.calls(request);
    }

    pub(super) fn dies(&mut self) {
        *self = Self { phase: Phase::Dead, up: std::mem::take(&mut self.up), ..Self::default() };
    }

    pub(super) fn hears(&mut self, reply: Reply, flaw: Option<Flaw>) {
        if reply == Reply::Pushed {
            return self.hears_the_push(flaw);
        }
        if self.unwanted > 0 {
            self.unwanted -= 1;
            return;
        }
        let Some(sent) = self.awaiting.take() else { return };
        self.start = self.start.min(sent);
        let lease = TTL.saturating_sub(sent);
        match (reply, self.phase) {
            (Reply::Busy, Phase::Asking | Phase::Waiting) => {
                (self.phase, self.joined) = (Phase::Waiting, true);
            }
            (Reply::Granted, Phase::Asking | Phase::Waiting) if lease > 0 => {
                (self.phase, self.believed) = (Phase::Holding, lease);
            }
            // A lease that was given up for lost does not come back.
            (Reply::Granted | Reply::Renewed, Phase::Holding) if self.believed > 0 => {
                self.believed = self.believed.max(lease);
            }
            (Reply::NotHeld, Phase::Holding) => self.believed = 0,
            (Reply::Released, _) => *self = Self { phase: Phase::Gone, ..Self::default() },
            _ => {}
        }
    }

    fn hears_the_push(&mut self, flaw: Option<Flaw>) {
        if !matches!(self.phase, Phase::Asking | Phase::Waiting) {
            return;
        }
        let lease = if flaw == Some(Flaw::CountsTheTtlAtOnce) { TTL } else { WINDOW };
        let start = if flaw == Some(Flaw::CountsFromThePush) { 0 } else { self.start };
        self.joined = true;
        self.believed = lease.saturating_sub(start);
        if self.believed > 0 {
            self.phase = Phase::Holding;
        }
    }

    pub(super) fn pass_time(&mut self) {
        self.believed = self.believed.saturating_sub(1);
        if let Some(sent) = &mut self.awaiting {
            *sent = TTL.min(*sent + 1);
        }
        if matches!(self.phase, Phase::Asking | Phase::Waiting) {
            self.start = TTL.min(self.start + 1);
        }
    }
}
