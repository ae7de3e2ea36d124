//! A quorum's members, in virtual time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use conformance::faulty::{CallFate, Faulty, passing};
use conformance::virtual_time::VirtualTime;
use leasehold::{MemoryStore, QuorumStore};
use leasehold_core::{
    Attempt, Claim, Fault, Fence, GrantAnswer, Holder, InspectStore as _, Key, Store, Ttl, WaitMode,
};

pub(crate) const MILLISECOND: Duration = Duration::from_millis(1);
pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const TTL: Duration = Duration::from_secs(10);
pub(crate) const MAX_TTL: Duration = Duration::from_secs(20);

/// Members called a, b, c …, and processes that use them.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) clock: Arc<VirtualTime>,
    pub(crate) members: Vec<Arc<Faulty>>,
    attempts: AtomicU64,
}

impl World {
    pub(crate) fn of(members: u8) -> Self {
        let clock = VirtualTime::begin();
        let member = |n: u8| {
            let memory = MemoryStore::new(clock.clone()).named(&char::from(b'a' + n).to_string());
            let member = Faulty::over(Arc::new(memory));
            member.says(|facts| facts.batches = false);
            member
        };
        let members = (0..members).map(member).collect();
        Self { clock, members, attempts: AtomicU64::new(0) }
    }

    /// The quorum of them, as a separate process has it.
    pub(crate) fn quorum(&self) -> QuorumStore {
        let members = self.members.iter().cloned().map(|member| -> Arc<dyn Store> { member });
        QuorumStore::new(members, MAX_TTL, self.clock.clone()).unwrap()
    }

    /// An attempt by another process to lock `k` exclusively.
    pub(crate) fn attempt(&self) -> Attempt {
        self.attempt_for("k", TTL)
    }

    pub(crate) fn attempt_for(&self, name: &str, ttl: Duration) -> Attempt {
        let holder = u128::from(self.attempts.fetch_add(1, Ordering::Relaxed) + 1) << 64;
        let claim = Claim::exclusive(key(name));
        Attempt::new(claim, Holder::from_bits(holder), None, Ttl::new(ttl).unwrap())
    }

    /// The time since the test began.
    pub(crate) fn passed(&self) -> Duration {
        self.clock.passed()
    }

    /// The number of such calls to each member.
    pub(crate) fn counts(&self, call: &str) -> Vec<usize> {
        self.members.iter().map(|member| member.count(call)).collect()
    }

    /// Another process holds `k` at this member alone, as if its round were under way.
    pub(crate) async fn rival_at(&self, member: usize) -> Attempt {
        let rival = self.attempt();
        self.rival_is_at(&rival, member).await;
        rival
    }

    pub(crate) async fn rival_is_at(&self, rival: &Attempt, member: usize) {
        fence(&self.members[member].memory.grant(rival, WaitMode::Try).await);
    }

    /// Lets the quorum notice that these members fail, as any call does.
    pub(crate) async fn fall_silent(&self, quorum: &QuorumStore, members: &[usize]) {
        members.iter().for_each(|member| self.members[*member].on("inspect", passing("it is down")));
        let _ = quorum.inspect(&key("k")).await;
        members.iter().for_each(|member| self.members[*member].on("inspect", CallFate::Fair));
    }

    /// The length of the queue at each member.
    pub(crate) fn lines(&self) -> Vec<usize> {
        self.members.iter().map(|member| member.memory.waiting()).collect()
    }

    /// The members at which `k` is held.
    pub(crate) fn taken(&self) -> Vec<usize> {
        (0..self.members.len()).filter(|member| self.members[*member].holders("k") > 0).collect()
    }
}

pub(crate) fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

pub(crate) fn fence(granted: &Result<GrantAnswer, Fault>) -> Fence {
    match granted {
        Ok(GrantAnswer::Granted { fence }) => *fence,
        other => panic!("{other:?}"),
    }
}

pub(crate) const WAIT: WaitMode = WaitMode::Wait { queue_limit: None };
