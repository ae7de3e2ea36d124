//! A member of a quorum, calls to it that nobody has to wait for, and the reports of its outages.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold_core::{Fault, FaultCause, FaultKind, Notice, NoticeBus, Notices, Store, Ttl, locked};
use tokio::sync::watch;

/// One member of a quorum, and whether it answers.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) name: Arc<str>,
    pub(super) store: Arc<dyn Store>,
    /// Its last call ended in a fault, or takes long. This affects only which member is asked
    /// first, never the validity of a lease.
    silent: watch::Sender<bool>,
}

impl Member {
    /// The time limit for a member's answer: small compared with the TTL, so that a renewal can be
    /// tried often; longer than a Redis store's own limit, whose fault says more than ours.
    const LIMIT: Duration = Duration::from_millis(600);

    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Self { name: store.name().into(), store, silent: watch::Sender::new(false) }
    }

    /// The time limit for a call about a lease of this TTL.
    pub(super) fn limit(ttl: Ttl) -> Duration {
        let share = ttl.duration() * 3 / 10;
        Self::LIMIT.min(share.max(Self::LIMIT / 10))
    }

    pub(super) fn is_silent(&self) -> bool {
        *self.silent.borrow()
    }

    /// Notes whether the member answers; returns true if that changed.
    pub(super) fn set_silent(&self, silent: bool) -> bool {
        self.silent.send_if_modified(|was| std::mem::replace(was, silent) != silent)
    }

    /// Resolves when the member does not answer.
    pub(super) async fn falls_silent(&self) {
        // The sender is a field of this struct, so it outlives this future.
        let _ = self.silent.subscribe().wait_for(|silent| *silent).await;
    }

    /// Resolves when the member answers again.
    pub(super) async fn answers_again(&self) {
        let mut silent = self.silent.subscribe();
        if !*silent.borrow_and_update() {
            return std::future::pending().await;
        }
        let _ = silent.wait_for(|silent| !silent).await;
    }

    pub(super) fn timed_out(&self) -> Fault {
        Fault::passing(&self.name, "timed out").caused_by(FaultCause::TimedOut)
    }

    pub(super) fn left_unanswered(&self) -> Fault {
        Fault::passing(&self.name, "the call ended without an answer")
    }
}

/// The state of each member, as shown by how its calls ended. No lease depends on it.
#[derive(Debug)]
pub(super) struct Health {
    /// Why each member is down, if it is.
    down: Mutex<Vec<Option<Down>>>,
    notice_bus: NoticeBus,
}

#[derive(Clone, Debug)]
struct Down {
    fault: Fault,
    /// It answers, but refused its vote.
    abstains: bool,
}

impl Health {
    /// The health of this many members, none of which is known to be down.
    pub(super) fn of(members: usize) -> Self {
        Self { down: Mutex::new(vec![None; members]), notice_bus: NoticeBus::default() }
    }

    /// Notes how a call to a member has ended; `votes` says whether it asked for its vote. A member that
    /// refused its vote is not back before it votes: it may serve everything else, such as a release.
    pub(super) fn note(&self, member: usize, name: &Arc<str>, fault: Option<&Fault>, votes: bool) {
        let mut down = locked(&self.down);
        // Reported while the mutex is held, so that readers get the changes in order.
        match (&mut down[member], fault) {
            (None, Some(fault)) => {
                let mut fault = fault.clone();
                // Use the member's name in this quorum, whatever name the fault uses.
                fault.store = name.clone();
                self.notice_bus.say(&Notice::MemberDown { fault: fault.clone() });
                let abstains = votes && fault.kind != FaultKind::Passing;
                down[member] = Some(Down { fault, abstains });
            }
            // It was restarted, and answers again, but does not vote yet.
            (Some(Down { abstains, .. }), Some(fault)) if votes && fault.kind != FaultKind::Passing => {
                *abstains = true;
            }
            (Some(Down { abstains, .. }), None) if votes || !*abstains => {
                self.notice_bus.say(&Notice::MemberBack { store: name.clone() });
                down[member] = None;
            }
            _ => {}
        }
    }

    /// The members that are down now, and all changes from now on.
    pub(super) fn read(&self) -> Box<dyn Notices> {
        let down = locked(&self.down);
        let faults = down.iter().flatten().map(|down| down.fault.clone());
        self.notice_bus.read_after(faults.map(|fault| Notice::MemberDown { fault }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three tenths of the TTL, so that a renewal can be repeated; with an upper limit, which suits
    /// the longest lease, and a lower limit above zero.
    #[test]
    fn a_member_is_waited_for_the_shorter_the_lease_is() {
        let limits = [60_000, 10_000, 1_000, 300, 100].map(|ttl| {
            let ttl = Ttl::new(Duration::from_millis(ttl)).unwrap();
            Member::limit(ttl).as_millis()
        });
        assert_eq!(limits, [600, 600, 300, 90, 60]);
    }
}

/// How a call to a member goes.
#[derive(Debug)]
pub(super) enum End<T> {
    /// It exceeded its limit, and continues: a late answer counts, or is undone.
    Late(Fault),
    /// It has ended, with an answer or a fault.
    Answer(Result<T, Fault>),
    /// It was dropped, and no answer can come any more.
    Dropped,
}

impl<T> End<T> {
    /// The same, with this in place of the answer.
    pub(super) fn with<U>(&self, answer: U) -> End<U> {
        match self {
            Self::Late(fault) => End::Late(fault.clone()),
            Self::Answer(Ok(_)) => End::Answer(Ok(answer)),
            Self::Answer(Err(fault)) => End::Answer(Err(fault.clone())),
            Self::Dropped => End::Dropped,
        }
    }
}
