//! A quorum's members, in virtual time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use conformance::faulty::{self, CallFate, Does, Faulty, members as members_of, passing};
use conformance::virtual_time::VirtualTime;
use leasehold::QuorumStore;
use leasehold_core::{
    Attempt, Claim, Fault, Fence, GrantAnswer, Holder, InspectStore as _, Key, Store, Ttl, WaitMode, Wake,
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
        let members: Vec<_> = members_of(members, &clock).into_iter().map(Faulty::over).collect();
        members.iter().for_each(|member| member.says(|facts| facts.batches = false));
        Self { clock, members, attempts: AtomicU64::new(0) }
    }

    /// The quorum of them, as a separate process has it.
    pub(crate) fn quorum(&self) -> QuorumStore {
        faulty::quorum_of(&self.members, MAX_TTL, self.clock.clone())
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

    pub(crate) fn passed(&self) -> Duration {
        self.clock.passed()
    }

    /// The number of such calls to each member.
    pub(crate) fn counts(&self, call: &str) -> Vec<usize> {
        self.members.iter().map(|member| member.count(call)).collect()
    }

    /// Another process holds `k` at these members alone, as if its round were under way.
    pub(crate) async fn rival_at(&self, members: impl IntoIterator<Item = usize>) -> Attempt {
        let rival = self.attempt();
        for member in members {
            fence(&self.members[member].memory.grant(&rival, WaitMode::Try).await);
        }
        rival
    }

    /// The rival lets go of `k` at these members.
    pub(crate) async fn rival_leaves(&self, rival: &Attempt, members: impl IntoIterator<Item = usize>) {
        for member in members {
            self.members[member].memory.release(rival).await.unwrap();
        }
    }

    /// Sets what becomes of such calls to these members.
    pub(crate) fn on(
        &self,
        members: impl IntoIterator<Item = usize>,
        call: &'static str,
        does: impl Into<Does> + Clone,
    ) {
        members.into_iter().for_each(|member| self.members[member].on(call, does.clone()));
    }

    /// Each member answers such calls after this many milliseconds, or never.
    pub(crate) fn answers_after(&self, call: &'static str, late: [Option<u32>; 3]) {
        for (member, late) in self.members.iter().zip(late) {
            member.on(call, late.map_or(CallFate::Hung, |late| CallFate::Slow(late * MILLISECOND)));
        }
    }

    /// The ids of the requests for a grant to a member, in order.
    pub(crate) fn ids_at(&self, member: usize) -> Vec<Holder> {
        self.members[member].asked("grant").iter().map(|asked| asked.holder).collect()
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

pub(crate) fn quorum_of(members: u8) -> (World, QuorumStore) {
    let world = World::of(members);
    let quorum = world.quorum();
    (world, quorum)
}

/// So many members, and a process that holds `k` at all of them: its quorum, its attempt, its fence.
pub(crate) async fn held_at(members: u8) -> (World, QuorumStore, Attempt, Fence) {
    let (world, quorum) = quorum_of(members);
    let attempt = world.attempt();
    let fence = fence(&quorum.grant(&attempt, WaitMode::Try).await);
    (world, quorum, attempt, fence)
}

/// An attempt joins a queue.
pub(crate) async fn stands(quorum: &QuorumStore, attempt: &Attempt) {
    let answer = quorum.grant(attempt, WAIT).await;
    assert!(matches!(answer, Ok(GrantAnswer::Busy { place: Some(_), .. })), "{answer:?}");
}

/// A try is told that the key is held, and has no place in a queue.
#[track_caller]
pub(crate) fn is_refused(answer: &Result<GrantAnswer, Fault>) {
    assert!(matches!(answer, Ok(GrantAnswer::Busy { place: None, .. })), "{answer:?}");
}

/// True if an attempt is woken within this time.
pub(crate) async fn is_woken(quorum: &QuorumStore, attempt: &Attempt, within: Duration) -> bool {
    let woken = tokio::time::timeout(within, quorum.woken(attempt)).await;
    assert!(matches!(woken, Ok(Wake::AskAgain) | Err(_)), "a quorum's waiter asks before it holds");
    woken.is_ok()
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
