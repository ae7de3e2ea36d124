//! The store of this process alone.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use leasehold_core::{
    Answer, Attempt, BoxFuture, Drift, Fault, Fence, GrantAnswer, HoldAnswer, Holder, Key, KeyState, Line,
    Manner, Records, Request, Runtime, Scene, Stamp, Store, Wake, apply,
};
use tokio::sync::Notify;

/// Leases in this process's memory: for programs of one process, and for tests.
///
/// Waiters are woken in the order in which they came. Fences rise also from one run of the program to the next, as long as
/// the machine's clock is not set back in between.
pub struct MemoryStore {
    runtime: Arc<dyn Runtime>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    records: Records,
    lines: HashMap<Key, Line>,
    waiters: HashMap<Holder, Waiter>,
    /// How many records there were after the last sweep.
    swept: usize,
}

struct Waiter {
    /// Whose line it stands in.
    key: Key,
    bell: Arc<Notify>,
}

impl MemoryStore {
    /// A store without any lease.
    #[must_use]
    pub fn new(runtime: Arc<dyn Runtime>) -> Self {
        Self { runtime, state: Mutex::default() }
    }

    /// All that the store remembers. For tests and diagnosis.
    #[must_use]
    pub fn dump(&self) -> Records {
        self.with(|state, scene| {
            state.records.forget_ended(scene.now);
            state.records.clone()
        })
    }

    /// How many attempts wait in line. For tests and diagnosis.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.with(|state, _| state.waiters.len())
    }

    fn with<T>(&self, work: impl FnOnce(&mut State, &Scene) -> T) -> T {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.runtime.now().as_nanos() / 1000;
        let wall = u64::try_from(self.runtime.since_epoch().as_micros()).unwrap_or(u64::MAX);
        let floor = Fence::new(wall).unwrap_or(Fence::MAX);
        work(&mut state, &Scene::new(Stamp::from_micros(now), floor))
    }

    fn ask(&self, request: Request) -> Answer {
        self.with(|state, scene| state.ask(request, scene))
    }
}

impl State {
    fn ask(&mut self, request: Request, scene: &Scene) -> Answer {
        let (answer, wakes) = apply(&mut self.records, request, scene);
        for wake in &wakes {
            if let Wake::AskAgain { key } = wake {
                self.ring(key);
            }
        }
        self.sweep(scene.now);
        answer
    }

    /// Wakes the first in line.
    fn ring(&self, key: &Key) {
        let head = self.lines.get(key).and_then(Line::head);
        if let Some(waiter) = head.and_then(|head| self.waiters.get(&head)) {
            waiter.bell.notify_one();
        }
    }

    fn join(&mut self, holder: Holder, key: &Key, now: Stamp) {
        if self.waiters.get(&holder).is_some_and(|waiter| waiter.key != *key) {
            self.leave(holder);
        }
        self.lines.entry(key.clone()).or_default().join(holder, now);
        self.waiters.entry(holder).or_insert_with(|| Waiter { key: key.clone(), bell: Arc::default() });
    }

    fn leave(&mut self, holder: Holder) -> Option<Key> {
        let Waiter { key, .. } = self.waiters.remove(&holder)?;
        if let Some(line) = self.lines.get_mut(&key) {
            line.leave(holder);
            if line.is_empty() {
                self.lines.remove(&key);
            }
        }
        Some(key)
    }

    /// Removes what has ended each time the records have doubled, so that the cost of it is constant per request.
    fn sweep(&mut self, now: Stamp) {
        const FEW: usize = 1024;
        let count = self.records.locks.len() + self.records.fences.len();
        if count > FEW.max(2 * self.swept) {
            self.records.forget_ended(now);
            self.swept = self.records.locks.len() + self.records.fences.len();
        }
    }
}

impl Store for MemoryStore {
    fn name(&self) -> &str {
        "memory:"
    }

    fn drift(&self) -> Drift {
        Drift::NONE
    }

    fn open(&self) -> BoxFuture<'_, Result<(), Fault>> {
        Box::pin(async { Ok(()) })
    }

    fn grant<'a>(
        &'a self,
        attempt: &'a Attempt,
        manner: Manner,
    ) -> BoxFuture<'a, Result<GrantAnswer, Fault>> {
        Box::pin(async move {
            let request = Request::Grant { attempt: attempt.clone(), not_after: None };
            Ok(self.with(|state, scene| {
                let Answer::Grant(answer) = state.ask(request, scene) else {
                    unreachable!("a grant was asked for")
                };
                match &answer {
                    GrantAnswer::Busy { held_by } if manner == Manner::Wait => {
                        state.join(attempt.holder, &held_by.key, scene.now);
                    }
                    _ => drop(state.leave(attempt.holder)),
                }
                answer
            }))
        })
    }

    fn renew<'a>(&'a self, attempts: &'a [Attempt]) -> BoxFuture<'a, Vec<Result<HoldAnswer, Fault>>> {
        Box::pin(async move {
            let renew = |attempt: &Attempt| match self.ask(Request::Renew(attempt.clone())) {
                Answer::Renew(answer) => Ok(answer),
                _ => unreachable!("a renewal was asked for"),
            };
            attempts.iter().map(renew).collect()
        })
    }

    fn release<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Result<HoldAnswer, Fault>> {
        Box::pin(async move {
            match self.ask(Request::Release(attempt.clone())) {
                Answer::Release(answer) => Ok(answer),
                _ => unreachable!("a release was asked for"),
            }
        })
    }

    fn give_up<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(async move {
            self.with(|state, scene| {
                let left = state.leave(attempt.holder);
                state.ask(Request::Release(attempt.clone()), scene);
                // Whoever was woken and goes without asking hands the wake-up on.
                if let Some(key) = left.filter(|key| state.records.lock(key, scene.now).is_none()) {
                    state.ring(&key);
                }
            });
            Ok(())
        })
    }

    fn inspect<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<KeyState, Fault>> {
        Box::pin(async move {
            match self.ask(Request::Inspect(key.clone())) {
                Answer::Inspect(state) => Ok(state),
                _ => unreachable!("a key was asked about"),
            }
        })
    }

    fn woken<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Wake> {
        Box::pin(async move {
            let place = self.with(|state, _| {
                state.waiters.get(&attempt.holder).map(|waiter| (waiter.key.clone(), waiter.bell.clone()))
            });
            let Some((key, bell)) = place else { return std::future::pending().await };
            bell.notified().await;
            Wake::AskAgain { key }
        })
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").finish_non_exhaustive()
    }
}
