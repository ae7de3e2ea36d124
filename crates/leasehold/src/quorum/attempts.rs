//! The attempts of this process, which the calls to the members share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use leasehold_core::{Holder, QuorumAttempt, QuorumReport, locked};
use tokio::sync::Notify;

/// An attempt, shared by its calls.
#[derive(Debug)]
pub(super) struct SharedAttempt {
    pub(super) holder: Holder,
    machine: Mutex<QuorumAttempt>,
    /// Wakes the request that waits for answers.
    pub(super) heard: Notify,
    /// How the members voted when a majority was last asked, as long as the attempt waits.
    votes: Mutex<Option<Arc<QuorumReport>>>,
}

impl SharedAttempt {
    pub(super) fn new(holder: Holder, machine: QuorumAttempt) -> Arc<Self> {
        Arc::new(Self { holder, machine: Mutex::new(machine), heard: Notify::new(), votes: Mutex::default() })
    }

    pub(super) fn note_votes(&self, votes: QuorumReport) {
        *locked(&self.votes) = Some(Arc::new(votes));
    }

    pub(super) fn take_votes(&self) -> Option<Arc<QuorumReport>> {
        locked(&self.votes).take()
    }

    /// The machine, for calls after which nothing has to be undone.
    pub(super) fn machine(&self) -> MutexGuard<'_, QuorumAttempt> {
        locked(&self.machine)
    }
}

/// The attempts that hold or wait, or of which something may be left at members, by the bits that
/// all ids of an attempt have in common.
#[derive(Debug, Default)]
pub(super) struct Attempts(Mutex<HashMap<u128, Arc<SharedAttempt>>>);

impl Attempts {
    /// The attempt that has this id, itself or at a member.
    pub(super) fn find(&self, id: Holder) -> Option<Arc<SharedAttempt>> {
        locked(&self.0).get(&bits(id)).cloned()
    }

    /// The attempt after a change; it is created if there is none.
    pub(super) fn enter(
        &self,
        id: Holder,
        create: impl FnOnce() -> Arc<SharedAttempt>,
        change: impl FnOnce(&mut QuorumAttempt),
    ) -> Arc<SharedAttempt> {
        let mut all = locked(&self.0);
        let shared = all.entry(bits(id)).or_insert_with(create);
        // An attempt that is over may be forgotten as soon as the map is unlocked.
        change(&mut shared.machine());
        shared.clone()
    }

    /// Forgets an attempt of which nothing is left.
    pub(super) fn forget_gone(&self, id: Holder) {
        let mut all = locked(&self.0);
        if all.get(&bits(id)).is_some_and(|shared| shared.machine().is_gone()) {
            all.remove(&bits(id));
        }
    }

    pub(super) fn remove(&self, id: Holder) -> Option<Arc<SharedAttempt>> {
        locked(&self.0).remove(&bits(id))
    }

    /// The number of attempts that hold or wait.
    pub(super) fn len(&self) -> usize {
        locked(&self.0).values().filter(|shared| !shared.machine().is_over()).count()
    }
}

const fn bits(id: Holder) -> u128 {
    id.bits() >> 32
}
