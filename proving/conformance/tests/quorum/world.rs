//! Members in memory, and processes whose calls to each member can fail independently.

use std::sync::Arc;
use std::time::Duration;

use conformance::faulty::{CallFate, Faulty, members as members_of, quorum_of};
use conformance::virtual_time::VirtualTime;
use leasehold::{Guard, Locks, LocksBuilder, MemoryStore, QuorumStore};
use leasehold_core::Content;

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const TTL: Duration = Duration::from_secs(10);
/// As long as the TTL, so that a quarantine is about as long as a lease.
pub(crate) const MAX_TTL: Duration = TTL;

pub(crate) struct World {
    pub(crate) time: Arc<VirtualTime>,
    pub(crate) members: Vec<Arc<MemoryStore>>,
}

/// One process: its locks, and the faults between it and each member.
pub(crate) struct Process {
    pub(crate) locks: Locks,
    pub(crate) way: Vec<Arc<Faulty>>,
    pub(crate) store: Arc<QuorumStore>,
}

impl World {
    /// This many members, called a, b, c …
    pub(crate) fn of(members: u8) -> Self {
        let time = VirtualTime::begin();
        Self { members: members_of(members, &time), time }
    }

    pub(crate) fn process(&self) -> Process {
        self.process_with(|builder| builder)
    }

    pub(crate) fn process_with(&self, set: impl FnOnce(LocksBuilder) -> LocksBuilder) -> Process {
        let way: Vec<_> = self.members.iter().map(|member| Faulty::over(member.clone())).collect();
        let store = Arc::new(quorum_of(&way, MAX_TTL, self.time.clone()));
        let builder = Locks::builder().ttl(TTL).runtime(self.time.clone());
        Process { locks: set(builder).over(store.clone()).unwrap(), way, store }
    }

    /// True if all members have nothing but fences.
    pub(crate) fn is_empty(&self) -> bool {
        self.members.iter().all(|member| {
            let records = member.dump();
            records.locks.is_empty()
                && records.queues.values().all(leasehold_core::WaitQueue::is_empty)
                && member.waiting() == 0
        })
    }

    /// The number of members at which `k` is held.
    pub(crate) fn taken(&self) -> usize {
        let taken = |member: &&Arc<MemoryStore>| {
            member.dump().locks.values().any(|lock| matches!(lock.content, Content::Lease { .. }))
        };
        self.members.iter().filter(taken).count()
    }
}

impl Process {
    pub(crate) fn set(&self, members: impl IntoIterator<Item = usize>, fate: &CallFate) {
        members.into_iter().for_each(|member| self.way[member].set(fate.clone()));
    }

    pub(crate) fn calls(&self) -> usize {
        self.way.iter().map(|member| member.calls()).sum()
    }
}

pub(crate) fn process_of(members: u8) -> (World, Process) {
    let world = World::of(members);
    let process = world.process();
    (world, process)
}

pub(crate) async fn holding(members: u8) -> (World, Process, Guard) {
    let (world, process) = process_of(members);
    let guard = process.locks.mutex("k").lock().await.unwrap();
    (world, process, guard)
}
