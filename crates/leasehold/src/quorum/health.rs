//! Which members do not do what they are asked, told once for each change.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leasehold_core::{Bulletin, Fault, Notice, Notices};

/// What is known of each member from how its calls ended. Nothing that is believed hangs on it.
#[derive(Debug)]
pub(super) struct Health {
    /// Why each member is down, if it is.
    down: Mutex<Vec<Option<Fault>>>,
    bulletin: Bulletin,
}

impl Health {
    /// So many members, of which nothing bad is known.
    pub(super) fn of(members: usize) -> Self {
        Self { down: Mutex::new(vec![None; members]), bulletin: Bulletin::default() }
    }

    /// A call to a member has ended so.
    pub(super) fn note(&self, member: usize, name: &Arc<str>, fault: Option<&Fault>) {
        let mut down = self.down();
        // Told while nothing can change, so that who reads hears of the changes in their order.
        match (&down[member], fault) {
            (None, Some(fault)) => {
                let mut fault = fault.clone();
                // By the name that the member has here, whatever the fault calls its place.
                fault.store = name.clone();
                self.bulletin.say(&Notice::MemberDown { fault: fault.clone() });
                down[member] = Some(fault);
            }
            (Some(_), None) => {
                self.bulletin.say(&Notice::MemberBack { store: name.clone() });
                down[member] = None;
            }
            _ => {}
        }
    }

    /// Who is down, and what changes from now on.
    pub(super) fn read(&self) -> Box<dyn Notices> {
        let down = self.down();
        let faults = down.iter().flatten().cloned();
        self.bulletin.read_after(faults.map(|fault| Notice::MemberDown { fault }))
    }

    fn down(&self) -> MutexGuard<'_, Vec<Option<Fault>>> {
        self.down.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
