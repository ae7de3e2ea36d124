//! A member in memory that deviates on request.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use conformance::faulty::CallFate;
use leasehold::MemoryStore;
use leasehold_core::{
    AdminStore, Attempt, Baseline, BaselineStore, BoxFuture, BreakAnswer, BreakNote, BreakRecord, Diagnosis,
    Fault, Fence, GrantAnswer, HoldAnswer, InspectStore, Key, KeyState, Limits, Mark, MarkStore, Marked,
    MemberStore, Notices, Parts, RaiseAnswer, ScanPage, ScanPosition, Store, StoreRole, WaitMode, Wake,
};

use super::world::key;

/// The fate of a call to a member.
#[derive(Clone, Debug)]
pub(crate) enum Does {
    Meets(CallFate),
    /// A grant is answered like this, and not served.
    Says(GrantAnswer),
}

impl From<CallFate> for Does {
    fn from(fate: CallFate) -> Self {
        Self::Meets(fate)
    }
}

/// A store in memory that deviates on request, and records its calls.
#[derive(Debug)]
pub(crate) struct Odd {
    pub(crate) memory: Arc<MemoryStore>,
    does: Mutex<HashMap<&'static str, Does>>,
    next: Mutex<HashMap<&'static str, VecDeque<Does>>>,
    asked: Mutex<Vec<(&'static str, Option<Attempt>)>>,
    wait_modes: Mutex<Vec<WaitMode>>,
    facts: Mutex<Facts>,
}

/// The store's statements about itself.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) identity: Option<&'static str>,
    pub(crate) warning: Option<&'static str>,
    pub(crate) at_once: usize,
    /// How far its clock is ahead of the others'.
    pub(crate) ahead: Duration,
    /// A key whose node is down: it cannot be renewed.
    pub(crate) out_of_reach: Option<&'static str>,
    pub(crate) diagnosis: Diagnosis,
}

impl Odd {
    pub(crate) fn of(memory: MemoryStore) -> Self {
        Self {
            memory: Arc::new(memory),
            does: Mutex::default(),
            next: Mutex::default(),
            asked: Mutex::default(),
            wait_modes: Mutex::default(),
            facts: Mutex::new(Facts {
                identity: None,
                warning: None,
                at_once: 100,
                ahead: Duration::ZERO,
                out_of_reach: None,
                diagnosis: Diagnosis::default(),
            }),
        }
    }

    /// Sets the fate of such calls from now on.
    pub(crate) fn on(&self, call: &'static str, does: impl Into<Does>) {
        self.does.lock().unwrap().insert(call, does.into());
    }

    /// Sets the fate of the next such call, after those that are set already.
    pub(crate) fn once(&self, call: &'static str, does: impl Into<Does>) {
        self.next.lock().unwrap().entry(call).or_default().push_back(does.into());
    }

    pub(crate) fn says(&self, change: impl FnOnce(&mut Facts)) {
        change(&mut self.facts.lock().unwrap());
    }

    /// The number of such calls.
    pub(crate) fn count(&self, call: &str) -> usize {
        self.asked.lock().unwrap().iter().filter(|(asked, _)| *asked == call).count()
    }

    /// The attempts of such calls.
    pub(crate) fn asked(&self, call: &str) -> Vec<Attempt> {
        let asked = self.asked.lock().unwrap();
        asked.iter().filter(|(one, _)| *one == call).filter_map(|(_, attempt)| attempt.clone()).collect()
    }

    /// The wait modes of the attempts that requested a grant.
    pub(crate) fn wait_modes(&self) -> Vec<WaitMode> {
        self.wait_modes.lock().unwrap().clone()
    }

    /// The number of holders of a key here.
    pub(crate) fn holders(&self, name: &str) -> usize {
        let holds = |key: &&Key| key.as_bytes() == name.as_bytes();
        self.memory.dump().locks.keys().filter(holds).count()
    }

    async fn through<T: Send + 'static>(
        &self,
        call: &'static str,
        attempt: Option<&Attempt>,
        serve: impl Future<Output = Result<T, Fault>> + Send + 'static,
    ) -> Result<T, Fault> {
        match self.meets(call, attempt) {
            Does::Meets(fate) => fate.over(self.name(), serve).await,
            Does::Says(answer) => panic!("{call} is not answered by {answer:?}"),
        }
    }

    /// Records a call; returns its fate.
    fn meets(&self, call: &'static str, attempt: Option<&Attempt>) -> Does {
        self.asked.lock().unwrap().push((call, attempt.cloned()));
        let next = self.next.lock().unwrap().get_mut(call).and_then(VecDeque::pop_front);
        let does = self.does.lock().unwrap();
        next.or_else(|| does.get(call).cloned()).unwrap_or(Does::Meets(CallFate::Fair))
    }

    /// The answers to a batch, in which some keys may be out of reach.
    fn each(
        &self,
        attempts: &[Attempt],
        answers: Result<Vec<Result<HoldAnswer, Fault>>, Fault>,
    ) -> Vec<Result<HoldAnswer, Fault>> {
        let answers = answers.unwrap_or_else(|fault| vec![Err(fault); attempts.len()]);
        let out_of_reach = self.facts.lock().unwrap().out_of_reach.map(key);
        let answer = |(attempt, answer): (&Attempt, _)| match &out_of_reach {
            Some(key) if attempt.claim.first_key() == key => {
                Err(Fault::passing(self.name(), "one of its nodes is down"))
            }
            _ => answer,
        };
        attempts.iter().zip(answers).map(answer).collect()
    }
}

impl Store for Odd {
    fn name(&self) -> &str {
        self.memory.name()
    }

    fn limits(&self) -> Limits {
        self.memory.limits()
    }

    fn open(&self) -> BoxFuture<'_, Result<(), Fault>> {
        Box::pin(self.through("open", None, async { Ok(()) }))
    }

    fn grant<'a>(
        &'a self,
        attempt: &'a Attempt,
        wait_mode: WaitMode,
    ) -> BoxFuture<'a, Result<GrantAnswer, Fault>> {
        let (memory, asked) = (self.memory.clone(), attempt.clone());
        self.wait_modes.lock().unwrap().push(wait_mode);
        Box::pin(async move {
            match self.meets("grant", Some(attempt)) {
                Does::Says(answer) => Ok(answer),
                Does::Meets(fate) => {
                    fate.over(self.name(), async move { memory.grant(&asked, wait_mode).await }).await
                }
            }
        })
    }

    fn renew<'a>(&'a self, attempts: &'a [Attempt]) -> BoxFuture<'a, Vec<Result<HoldAnswer, Fault>>> {
        let (memory, these) = (self.memory.clone(), attempts.to_vec());
        let kept = async move { Ok(memory.renew(&these).await) };
        Box::pin(async move { self.each(attempts, self.through("renew", attempts.first(), kept).await) })
    }

    fn release<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Result<HoldAnswer, Fault>> {
        let (memory, asked) = (self.memory.clone(), attempt.clone());
        Box::pin(self.through("release", Some(attempt), async move { memory.release(&asked).await }))
    }

    fn give_up<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Result<(), Fault>> {
        let (memory, asked) = (self.memory.clone(), attempt.clone());
        Box::pin(self.through("give_up", Some(attempt), async move { memory.give_up(&asked).await }))
    }

    fn woken<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Wake> {
        self.memory.woken(attempt)
    }

    fn parts(&self) -> Parts<'_> {
        Parts {
            member: Some(self),
            inspect: Some(self),
            marks: Some(self),
            admin: Some(self),
            baseline: Some(self),
            ..Parts::default()
        }
    }
}

impl MemberStore for Odd {
    fn identity(&self) -> Option<Arc<str>> {
        self.facts.lock().unwrap().identity.map(Arc::from)
    }

    fn rejoin<'a>(&'a self, attempts: &'a [Attempt]) -> BoxFuture<'a, Vec<Result<HoldAnswer, Fault>>> {
        let (memory, these) = (self.memory.clone(), attempts.to_vec());
        let kept = async move { Ok(memory.rejoin(&these).await) };
        Box::pin(async move { self.each(attempts, self.through("rejoin", attempts.first(), kept).await) })
    }

    fn raise<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Result<RaiseAnswer, Fault>> {
        let (memory, asked) = (self.memory.clone(), attempt.clone());
        Box::pin(self.through("raise", Some(attempt), async move { memory.raise(&asked).await }))
    }
}

impl InspectStore for Odd {
    fn inspect<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<KeyState, Fault>> {
        let (memory, key) = (self.memory.clone(), key.clone());
        Box::pin(self.through("inspect", None, async move { memory.inspect(&key).await }))
    }

    fn inspected_at_once(&self) -> usize {
        self.facts.lock().unwrap().at_once
    }

    fn list<'a>(&'a self, prefix: &'a [u8]) -> BoxFuture<'a, Result<Vec<KeyState>, Fault>> {
        let (memory, prefix) = (self.memory.clone(), prefix.to_vec());
        Box::pin(self.through("list", None, async move { memory.list(&prefix).await }))
    }

    fn scan<'a>(&'a self, prefix: &'a [u8], from: ScanPosition) -> BoxFuture<'a, Result<ScanPage, Fault>> {
        let (memory, prefix) = (self.memory.clone(), prefix.to_vec());
        Box::pin(self.through("scan", None, async move { memory.scan(&prefix, from).await }))
    }

    fn notices(&self) -> Option<Box<dyn Notices>> {
        self.memory.notices()
    }
}

impl MarkStore for Odd {
    fn mark<'a>(
        &'a self,
        attempt: &'a Attempt,
        mark: &'a Mark,
        keep: Duration,
    ) -> BoxFuture<'a, Result<HoldAnswer, Fault>> {
        let (memory, asked, mark) = (self.memory.clone(), attempt.clone(), mark.clone());
        Box::pin(self.through("mark", Some(attempt), async move { memory.mark(&asked, &mark, keep).await }))
    }

    fn marked<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Marked, Fault>> {
        let (memory, key) = (self.memory.clone(), key.clone());
        let ahead = self.facts.lock().unwrap().ahead;
        Box::pin(self.through("marked", None, async move {
            let mut marked = memory.marked(&key).await?;
            marked.now = marked.now + ahead;
            Ok(marked)
        }))
    }

    fn forget<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Mark>, Fault>> {
        let (memory, key) = (self.memory.clone(), key.clone());
        Box::pin(self.through("forget", None, async move { MarkStore::forget(&*memory, &key).await }))
    }

    fn list_marks<'a>(&'a self, prefix: &'a [u8]) -> BoxFuture<'a, Result<Vec<(Key, Marked)>, Fault>> {
        let (memory, prefix) = (self.memory.clone(), prefix.to_vec());
        Box::pin(self.through("list marks", None, async move { memory.list_marks(&prefix).await }))
    }
}

impl AdminStore for Odd {
    fn warnings(&self) -> Vec<String> {
        self.facts.lock().unwrap().warning.map(str::to_owned).into_iter().collect()
    }

    fn break_lease<'a>(
        &'a self,
        key: &'a Key,
        fence: Fence,
        note: &'a BreakNote,
    ) -> BoxFuture<'a, Result<BreakAnswer, Fault>> {
        let (memory, key, note) = (self.memory.clone(), key.clone(), note.clone());
        Box::pin(self.through("break", None, async move { memory.break_lease(&key, fence, &note).await }))
    }

    fn last_break<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<BreakRecord>, Fault>> {
        let (memory, key) = (self.memory.clone(), key.clone());
        Box::pin(self.through("last break", None, async move { memory.last_break(&key).await }))
    }

    fn list_breaks<'a>(&'a self, prefix: &'a [u8]) -> BoxFuture<'a, Result<Vec<BreakRecord>, Fault>> {
        let (memory, prefix) = (self.memory.clone(), prefix.to_vec());
        Box::pin(self.through("list breaks", None, async move { memory.list_breaks(&prefix).await }))
    }

    fn diagnose(&self, _: StoreRole) -> BoxFuture<'_, Diagnosis> {
        let diagnosis = self.facts.lock().unwrap().diagnosis.clone();
        Box::pin(async move {
            let diagnosed = self.through("diagnose", None, async move { Ok(diagnosis) }).await;
            diagnosed.unwrap_or_default()
        })
    }
}

impl BaselineStore for Odd {
    /// It has no baseline to measure, so this ends at once.
    fn run_baseline<'a>(&'a self, _: &'a Baseline) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(self.through("bare", None, async { Ok(()) }))
    }
}

/// A transient error with this reason.
pub(crate) fn passing(reason: impl fmt::Display) -> CallFate {
    CallFate::Failing(Fault::passing("a store", reason))
}

/// A lasting error with this reason.
pub(crate) fn lasting(reason: impl fmt::Display) -> CallFate {
    CallFate::Failing(Fault::lasting("a store", reason))
}
