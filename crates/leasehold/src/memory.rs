//! The store of this process alone.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use leasehold_core::{
    Answer, Attempt, BoxFuture, BreakAnswer, Bulletin, Drift, Fault, Fence, GrantAnswer, HoldAnswer, Instant,
    Key, KeyState, Manner, Mark, Marked, News, Notice, Notices, RaiseAnswer, Records, Request, Runtime,
    Scene, Served, Stamp, Store, Wait, Waiting, Wake, apply,
};

use crate::place::low_bits;

/// Leases in this process's memory: for programs of one process, and for tests.
///
/// Waiters are served in the order in which they came. Fences rise also from one run of the program to the next, as long as
/// the machine's clock is not set back in between.
#[derive(Debug)]
pub struct MemoryStore {
    name: Arc<str>,
    runtime: Arc<dyn Runtime>,
    waiting: Arc<Waiting>,
    shared: Arc<Shared>,
}

/// What stores [beside](MemoryStore::beside) each other have in common.
#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    bulletin: Bulletin,
}

#[derive(Debug, Default)]
struct State {
    records: Records,
    /// The waiters of each store that has these records.
    waiting: Vec<Arc<Waiting>>,
    /// How many records there were after the last sweep.
    swept: usize,
}

impl MemoryStore {
    /// A store without any lease.
    #[must_use]
    pub fn new(runtime: Arc<dyn Runtime>) -> Self {
        Self::over("memory:".into(), runtime, Arc::default())
    }

    /// The same records as another process has them: with waiters of its own, who are told by this runtime.
    #[cfg(feature = "testing")]
    pub(crate) fn beside(&self, runtime: Arc<dyn Runtime>) -> Self {
        Self::over(self.name.clone(), runtime, self.shared.clone())
    }

    fn over(name: Arc<str>, runtime: Arc<dyn Runtime>, shared: Arc<Shared>) -> Self {
        let waiting = Arc::new(Waiting::new(low_bits(runtime.random())));
        shared.state.lock().unwrap_or_else(PoisonError::into_inner).waiting.push(waiting.clone());
        Self { name, runtime, waiting, shared }
    }

    /// The same store, called `memory:` and this: several of them make a quorum to test with.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        Self { name: format!("memory:{name}").into(), ..self }
    }

    /// All that the store remembers. For tests and diagnosis.
    #[must_use]
    pub fn dump(&self) -> Records {
        self.with(|state, scene| {
            state.records.forget_ended(scene.now);
            state.records.forget_ended_marks(Stamp::from_micros(scene.floor.get()));
            state.records.clone()
        })
    }

    /// How many attempts wait in line. For tests and diagnosis.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Forgets everything, as a server does that is started anew without its state. For tests of what comes of that.
    pub fn forget(&self) {
        self.with(|state, scene| {
            state.records = Records::default();
            state.records.voided = Some(scene.now);
        });
    }

    /// Deletes what stands at a key, as an operator can, without a word to anybody. `false` where nothing does.
    #[cfg(feature = "testing")]
    pub(crate) fn delete(&self, key: &Key) -> bool {
        self.with(|state, scene| {
            let held = state.records.lock(key, scene.now).is_some();
            state.records.locks.remove(key);
            state.records.shares.remove(key);
            held
        })
    }

    /// Why an answer is none to what was asked.
    fn fault(&self, answer: &Answer) -> Fault {
        match answer {
            Answer::Quarantined { left } => Fault::quarantined(self.name(), *left),
            _ => Fault::lasting(
                self.name(),
                "the answer is to another request: this is a fault in leasehold-core",
            ),
        }
    }

    fn with<T>(&self, work: impl FnOnce(&mut State, &Scene<'_>) -> T) -> T {
        let mut state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.runtime.now().as_nanos() / 1000;
        let wall = u64::try_from(self.runtime.since_epoch().as_micros()).unwrap_or(u64::MAX);
        let floor = Fence::new(wall).unwrap_or(Fence::MAX);
        work(&mut state, &Scene::new(Stamp::from_micros(now), floor))
    }

    /// Serves a request, and tells who is concerned. Under one lock, so that nobody hears of what came later first.
    fn ask(&self, request: Request) -> Answer {
        self.with(|state, scene| self.serve(state, request, scene))
    }

    fn serve(&self, state: &mut State, request: Request, scene: &Scene<'_>) -> Answer {
        let Served { answer, mut pushes, mut unfinished } = apply(&mut state.records, request, scene);
        while !unfinished.is_empty() {
            let more = apply(&mut state.records, Request::Advance(unfinished), scene);
            pushes.extend(more.pushes);
            unfinished = more.unfinished;
        }
        let now = Instant::from_nanos(scene.now.as_micros() * 1000);
        for push in pushes {
            if push.news == News::Broken {
                self.shared.bulletin.say(&Notice::Broken { holder: push.holder, key: push.key });
                continue;
            }
            // Whoever is not here any more is about to release it.
            for waiting in &state.waiting {
                let _ = waiting.hears(push.holder, &push.key, push.news, now, now);
            }
        }
        state.sweep(scene);
        answer
    }
}

impl State {
    /// Removes what has ended each time the records have doubled, so that the cost of it is constant per request.
    fn sweep(&mut self, scene: &Scene<'_>) {
        const FEW: usize = 1024;
        if self.count() > FEW.max(2 * self.swept) {
            self.records.forget_ended(scene.now);
            self.records.forget_ended_marks(Stamp::from_micros(scene.floor.get()));
            self.swept = self.count();
        }
    }

    fn count(&self) -> usize {
        let Records { locks, shares, fences, lines, marks, .. } = &self.records;
        locks.len() + shares.len() + fences.len() + lines.len() + marks.len()
    }
}

impl Store for MemoryStore {
    fn name(&self) -> &str {
        &self.name
    }

    fn drift(&self) -> Drift {
        Drift::ON_ONE_CLOCK
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
            let now = self.runtime.now();
            let wait = match manner {
                Manner::Wait { line_limit } => {
                    let ticket = self.waiting.asks(attempt.holder, now);
                    Some(Wait { channel: None, ticket, line_limit })
                }
                _ => None,
            };
            let waits = wait.is_some();
            // Under one lock, so that nothing comes between being refused and standing in line.
            let answer = self.with(|state, scene| {
                let request = Request::Grant { attempt: attempt.clone(), wait, not_after: None };
                let answer = match self.serve(state, request, scene) {
                    Answer::Grant(answer) => answer,
                    other => return Err(self.fault(&other)),
                };
                if waits {
                    self.waiting.answered(attempt, &answer, now);
                }
                Ok(answer)
            });
            if waits && answer.is_err() {
                self.waiting.leave(attempt.holder, now);
            }
            answer
        })
    }

    fn renew<'a>(&'a self, attempts: &'a [Attempt]) -> BoxFuture<'a, Vec<Result<HoldAnswer, Fault>>> {
        Box::pin(async move {
            let renew = |attempt: &Attempt| match self.ask(Request::Renew(attempt.clone())) {
                Answer::Renew(answer) => Ok(answer),
                other => Err(self.fault(&other)),
            };
            attempts.iter().map(renew).collect()
        })
    }

    fn rejoin<'a>(&'a self, attempts: &'a [Attempt]) -> BoxFuture<'a, Vec<Result<HoldAnswer, Fault>>> {
        Box::pin(async move {
            let rejoin = |attempt: &Attempt| match self
                .ask(Request::Rejoin { attempt: attempt.clone(), not_after: None })
            {
                Answer::Rejoin(answer) => Ok(answer),
                other => Err(self.fault(&other)),
            };
            attempts.iter().map(rejoin).collect()
        })
    }

    fn raise<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Result<RaiseAnswer, Fault>> {
        Box::pin(async move {
            match self.ask(Request::Raise(attempt.clone())) {
                Answer::Raise(answer) => Ok(answer),
                other => Err(self.fault(&other)),
            }
        })
    }

    fn release<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Result<HoldAnswer, Fault>> {
        Box::pin(async move {
            self.waiting.leave(attempt.holder, self.runtime.now());
            match self.ask(Request::Release(attempt.clone())) {
                Answer::Release(answer) => Ok(answer),
                other => Err(self.fault(&other)),
            }
        })
    }

    fn give_up<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(async move { self.release(attempt).await.map(drop) })
    }

    fn inspect<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<KeyState, Fault>> {
        Box::pin(async move {
            match self.ask(Request::Inspect(key.clone())) {
                Answer::Inspect(state) => Ok(state),
                other => Err(self.fault(&other)),
            }
        })
    }

    fn break_lease<'a>(&'a self, key: &'a Key, fence: Fence) -> BoxFuture<'a, Result<BreakAnswer, Fault>> {
        Box::pin(async move {
            match self.ask(Request::Break { key: key.clone(), fence }) {
                Answer::Break(answer) => Ok(answer),
                other => Err(self.fault(&other)),
            }
        })
    }

    fn list<'a>(&'a self, prefix: &'a [u8]) -> BoxFuture<'a, Result<Vec<KeyState>, Fault>> {
        Box::pin(async move {
            let keys = self.with(|state, scene| state.records.keys_in_use(prefix, scene.now));
            let mut states = Vec::with_capacity(keys.len());
            for key in &keys {
                states.push(self.inspect(key).await?);
            }
            Ok(states)
        })
    }

    /// The mark lasts as long as the process does.
    fn mark<'a>(
        &'a self,
        attempt: &'a Attempt,
        mark: &'a Mark,
        keep: Duration,
    ) -> BoxFuture<'a, Result<HoldAnswer, Fault>> {
        Box::pin(async move {
            match self.ask(Request::Mark { attempt: attempt.clone(), mark: mark.clone(), keep }) {
                Answer::Mark(answer) => Ok(answer),
                other => Err(self.fault(&other)),
            }
        })
    }

    fn marked<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Marked, Fault>> {
        Box::pin(async move {
            match self.ask(Request::Marked(key.clone())) {
                Answer::Marked(marked) => Ok(marked),
                other => Err(self.fault(&other)),
            }
        })
    }

    fn woken<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Wake> {
        self.waiting.called(attempt.holder, &*self.runtime)
    }

    fn notices(&self) -> Option<Box<dyn Notices>> {
        Some(self.shared.bulletin.read())
    }
}
