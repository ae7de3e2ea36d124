//! Health of the members: reports once when a member goes down, and once when it is back.

use std::sync::{Arc, Mutex};

use leasehold_core::{Fault, FaultKind, Notice, NoticeBus, Notices, locked};

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
