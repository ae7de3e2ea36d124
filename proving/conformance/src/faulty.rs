//! A store in memory that loses, delays and refuses its answers, and deviates in other ways.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::{Locks, LocksBuilder, MemoryStore, QuorumStore};
use leasehold_core::{
    AdminStore, Attempt, Baseline, BaselineStore, BatchServed, BoxFuture, BreakAnswer, BreakRecord,
    Diagnosis, Fault, GrantAnswer, HoldAnswer, InspectStore, Key, KeyState, LeaseBreak, Limits, Mark,
    MarkStore, Marked, MemberStore, NoticeBus, Notices, Parts, RaiseAnswer, Runtime, ScanPage, ScanPosition,
    Store, StoreFuture, StoreRole, Successor, TransferStore, WaitMode, Wake, locked,
};

use crate::virtual_time::VirtualTime;

/// A process's locks on a store in memory with faults, in virtual time; more processes can be opened.
#[derive(Debug)]
pub struct World {
    pub time: Arc<VirtualTime>,
    /// The store, without faults.
    pub memory: Arc<MemoryStore>,
    /// The store as this process has it.
    pub store: Arc<Faulty>,
    pub locks: Locks,
    ttl: Duration,
}

impl World {
    /// A process whose locks have this TTL.
    pub fn begin(ttl: Duration) -> Self {
        Self::with(ttl, |builder| builder)
    }

    /// A process with these settings, besides a TTL.
    pub fn with(ttl: Duration, set: impl FnOnce(LocksBuilder) -> LocksBuilder) -> Self {
        let time = VirtualTime::begin();
        let memory = Arc::new(MemoryStore::new(time.clone()));
        let store = Faulty::over(memory.clone());
        let builder = set(Locks::builder().ttl(ttl).runtime(time.clone()));
        let locks = builder.over(store.clone()).expect("sensible settings");
        Self { time, memory, store, locks, ttl }
    }

    /// Another process on the same store, without faults.
    pub fn others(&self) -> Locks {
        let builder = Locks::builder().ttl(self.ttl).runtime(self.time.clone());
        builder.over(self.memory.clone()).expect("sensible settings")
    }

    /// True if nobody holds or waits.
    pub fn is_empty(&self) -> bool {
        self.memory.dump().locks.is_empty() && self.memory.waiting() == 0
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CallFate {
    #[default]
    Fair,
    /// It is served, and answered after this delay.
    Slow(Duration),
    /// It reaches the store after this delay, even if nobody waits for it any more.
    Late(Duration),
    /// It never reaches the store, and the caller gets an error after a second.
    Lost,
    /// It is served, but the answer is lost; the caller gets an error after a second.
    AnswerLost,
    /// No answer ever comes, not even an error.
    Hung,
    Refused,
    /// It never reaches the store, and the caller gets this error at once.
    Failing(Fault),
    Panics,
}

impl CallFate {
    /// The result of a call to the store with this name.
    pub async fn over<T: Send + 'static>(
        self,
        store: &str,
        call: impl Future<Output = Result<T, Fault>> + Send + 'static,
    ) -> Result<T, Fault> {
        match self {
            Self::Fair => call.await,
            Self::Slow(by) => {
                let answer = call.await;
                tokio::time::sleep(by).await;
                answer
            }
            Self::Late(by) => {
                let late = tokio::spawn(async move {
                    tokio::time::sleep(by).await;
                    call.await
                });
                late.await.unwrap_or_else(|_| Err(Fault::passing(store, "it panicked")))
            }
            Self::Lost => timed_out(store).await,
            Self::AnswerLost => {
                call.await?;
                timed_out(store).await
            }
            Self::Hung => std::future::pending().await,
            Self::Refused => Err(Fault::lasting(store, "not allowed")),
            Self::Failing(fault) => Err(fault),
            Self::Panics => panic!("{store}: a bug of the store"),
        }
    }
}

async fn timed_out<T>(store: &str) -> Result<T, Fault> {
    tokio::time::sleep(Duration::from_secs(1)).await;
    Err(Fault::passing(store, "timed out"))
}

/// What becomes of a call to a member.
#[derive(Clone, Debug)]
pub enum Does {
    Meets(CallFate),
    /// It is a grant, which is answered like this and not served.
    Says(GrantAnswer),
}

impl From<CallFate> for Does {
    fn from(fate: CallFate) -> Self {
        Self::Meets(fate)
    }
}

/// A store in memory with injected faults, which records its calls.
#[derive(Debug)]
pub struct Faulty {
    pub memory: Arc<MemoryStore>,
    /// Its notices, if the facts say that it has others than the memory.
    pub notice_bus: NoticeBus,
    script: Mutex<Script>,
}

/// So many stores in memory, called a, b, c …
pub fn members(count: u8, runtime: &Arc<impl Runtime + 'static>) -> Vec<Arc<MemoryStore>> {
    let name = |n: u8| char::from(b'a' + n).to_string();
    let member = |n| Arc::new(MemoryStore::new(runtime.clone()).named(&name(n)));
    (0..count).map(member).collect()
}

pub fn quorum_of(members: &[Arc<Faulty>], max_ttl: Duration, runtime: Arc<dyn Runtime>) -> QuorumStore {
    let members = members.iter().cloned().map(|member| -> Arc<dyn Store> { member });
    QuorumStore::new(members, max_ttl, runtime).expect("members and a TTL that fit")
}

/// The fates of calls, and the calls so far.
#[derive(Debug, Default)]
struct Script {
    fate: CallFate,
    on: HashMap<&'static str, Does>,
    next: HashMap<&'static str, VecDeque<Does>>,
    asked: Vec<(&'static str, Option<Attempt>)>,
    wait_modes: Vec<WaitMode>,
    facts: Facts,
}

#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// What tells it from other stores.
    pub identity: Option<&'static str>,
    pub warning: Option<&'static str>,
    /// How many keys it inspects in one command.
    pub at_once: usize,
    /// How many commands each page of a scan takes.
    pub commands: u32,
    /// How far its clock is ahead of the others'.
    pub ahead: Duration,
    /// A key whose node is down: it cannot be renewed.
    pub out_of_reach: Option<&'static str>,
    pub diagnosis: Diagnosis,
    pub batches: bool,
    /// Batches do not serve keys that begin like this.
    pub left: Option<&'static str>,
    /// True if its notices are those of the test and not those of the memory.
    pub own_notices: bool,
    /// True if it serves renewals and returns no answer for them, which no store should do.
    pub unanswered: bool,
}

impl Faulty {
    /// Wraps a store; at first, no fault is injected.
    #[must_use]
    pub fn over(memory: Arc<MemoryStore>) -> Arc<Self> {
        let facts = Facts { at_once: 100, commands: 1, batches: true, ..Facts::default() };
        let script = Mutex::new(Script { facts, ..Script::default() });
        Arc::new(Self { memory, notice_bus: NoticeBus::default(), script })
    }

    /// Sets the fate of calls from now on.
    pub fn set(&self, fate: CallFate) {
        locked(&self.script).fate = fate;
    }

    /// Sets the fate of calls with this name from now on.
    pub fn on(&self, call: &'static str, does: impl Into<Does>) {
        locked(&self.script).on.insert(call, does.into());
    }

    /// Sets the fate of the next call with this name, after those that are set already.
    pub fn once(&self, call: &'static str, does: impl Into<Does>) {
        locked(&self.script).next.entry(call).or_default().push_back(does.into());
    }

    pub fn says(&self, change: impl FnOnce(&mut Facts)) {
        change(&mut locked(&self.script).facts);
    }

    pub fn calls(&self) -> usize {
        locked(&self.script).asked.len()
    }

    pub fn count(&self, call: &str) -> usize {
        locked(&self.script).asked.iter().filter(|(asked, _)| *asked == call).count()
    }

    pub fn asked(&self, call: &str) -> Vec<Attempt> {
        let script = locked(&self.script);
        let calls = script.asked.iter().filter(|(asked, _)| *asked == call);
        calls.filter_map(|(_, attempt)| attempt.clone()).collect()
    }

    /// The wait modes of the attempts that requested a grant.
    pub fn wait_modes(&self) -> Vec<WaitMode> {
        locked(&self.script).wait_modes.clone()
    }

    /// The number of holders of a key here.
    pub fn holders(&self, name: &str) -> usize {
        let holds = |key: &&Key| key.as_bytes() == name.as_bytes();
        self.memory.dump().locks.keys().filter(holds).count()
    }

    fn facts(&self) -> Facts {
        locked(&self.script).facts.clone()
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
        let script = &mut *locked(&self.script);
        script.asked.push((call, attempt.cloned()));
        let next = script.next.get_mut(call).and_then(VecDeque::pop_front);
        next.or_else(|| script.on.get(call).cloned()).unwrap_or_else(|| script.fate.clone().into())
    }

    /// The answers to a call for several keys, of which some may be out of reach.
    fn each(
        &self,
        attempts: &[Attempt],
        answers: Result<Vec<Result<HoldAnswer, Fault>>, Fault>,
    ) -> Vec<Result<HoldAnswer, Fault>> {
        let answers = answers.unwrap_or_else(|fault| vec![Err(fault); attempts.len()]);
        let Facts { out_of_reach, unanswered, .. } = self.facts();
        if unanswered {
            return Vec::new();
        }
        let answer = |(attempt, answer): (&Attempt, _)| match out_of_reach {
            Some(key) if attempt.claim.first_key().as_bytes() == key.as_bytes() => {
                Err(Fault::passing(self.name(), "one of its nodes is down"))
            }
            _ => answer,
        };
        attempts.iter().zip(answers).map(answer).collect()
    }
}

impl Store for Faulty {
    fn name(&self) -> &str {
        self.memory.name()
    }

    fn limits(&self) -> Limits {
        self.memory.limits()
    }

    fn open(&self) -> StoreFuture<'_, ()> {
        Box::pin(self.through("open", None, async { Ok(()) }))
    }

    fn grant<'a>(&'a self, attempt: &'a Attempt, wait_mode: WaitMode) -> StoreFuture<'a, GrantAnswer> {
        let (memory, asked) = (self.memory.clone(), attempt.clone());
        locked(&self.script).wait_modes.push(wait_mode);
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

    fn release<'a>(&'a self, attempt: &'a Attempt) -> StoreFuture<'a, HoldAnswer> {
        let (memory, asked) = (self.memory.clone(), attempt.clone());
        Box::pin(self.through("release", Some(attempt), async move { memory.release(&asked).await }))
    }

    fn give_up<'a>(&'a self, attempt: &'a Attempt) -> StoreFuture<'a, ()> {
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
            transfer: Some(self),
            admin: Some(self),
            baseline: Some(self),
            ..Parts::default()
        }
    }
}

impl MemberStore for Faulty {
    fn identity(&self) -> Option<Arc<str>> {
        self.facts().identity.map(Arc::from)
    }

    fn serves_batches(&self) -> bool {
        self.facts().batches
    }

    fn serve_batch<'a>(
        &'a self,
        grants: &'a [&'a Attempt],
        releases: &'a [&'a Attempt],
    ) -> StoreFuture<'a, BatchServed> {
        let left = self.facts().left;
        let serves = move |attempt: &Attempt| {
            left.is_none_or(|left| !attempt.claim.first_key().as_bytes().starts_with(left.as_bytes()))
        };
        let served = |attempts: &[&Attempt]| -> Vec<Attempt> {
            attempts.iter().filter(|attempt| serves(attempt)).map(|attempt| (*attempt).clone()).collect()
        };
        let (memory, granting, releasing) = (self.memory.clone(), served(grants), served(releases));
        let call = self.through("batch", None, async move {
            let (grants, releases): (Vec<_>, Vec<_>) =
                (granting.iter().collect(), releasing.iter().collect());
            memory.serve_batch(&grants, &releases).await
        });
        Box::pin(async move {
            let BatchServed { granted, released } = call.await?;
            let (mut granted, mut released) = (granted.into_iter(), released.into_iter());
            let granted = grants.iter().map(|attempt| if serves(attempt) { granted.next()? } else { None });
            let released = releases.iter().map(|attempt| serves(attempt) && released.next() == Some(true));
            Ok(BatchServed { granted: granted.collect(), released: released.collect() })
        })
    }

    fn rejoin<'a>(&'a self, attempts: &'a [Attempt]) -> BoxFuture<'a, Vec<Result<HoldAnswer, Fault>>> {
        let (memory, these) = (self.memory.clone(), attempts.to_vec());
        let kept = async move { Ok(memory.rejoin(&these).await) };
        Box::pin(async move { self.each(attempts, self.through("rejoin", attempts.first(), kept).await) })
    }

    fn raise<'a>(&'a self, attempt: &'a Attempt) -> StoreFuture<'a, RaiseAnswer> {
        let (memory, asked) = (self.memory.clone(), attempt.clone());
        Box::pin(self.through("raise", Some(attempt), async move { memory.raise(&asked).await }))
    }
}

impl InspectStore for Faulty {
    fn inspect<'a>(&'a self, key: &'a Key) -> StoreFuture<'a, KeyState> {
        let (memory, key) = (self.memory.clone(), key.clone());
        let ahead = self.facts().ahead;
        Box::pin(self.through("inspect", None, async move {
            let mut state = memory.inspect(&key).await?;
            state.clock = state.clock.map(|clock| clock + ahead);
            Ok(state)
        }))
    }

    fn inspected_at_once(&self) -> usize {
        self.facts().at_once
    }

    fn list<'a>(&'a self, prefix: &'a [u8]) -> StoreFuture<'a, Vec<KeyState>> {
        let (memory, prefix) = (self.memory.clone(), prefix.to_vec());
        Box::pin(self.through("list", None, async move { memory.list(&prefix).await }))
    }

    fn scan<'a>(&'a self, prefix: &'a [u8], from: ScanPosition) -> StoreFuture<'a, ScanPage> {
        let (memory, prefix, commands) = (self.memory.clone(), prefix.to_vec(), self.facts().commands);
        Box::pin(self.through("scan", None, async move {
            let mut page = memory.scan(&prefix, from).await?;
            page.commands = commands;
            Ok(page)
        }))
    }

    fn notices(&self) -> Option<Box<dyn Notices>> {
        if self.facts().own_notices { Some(self.notice_bus.read()) } else { self.memory.notices() }
    }
}

impl MarkStore for Faulty {
    fn mark<'a>(
        &'a self,
        attempt: &'a Attempt,
        mark: &'a Mark,
        keep: Duration,
    ) -> StoreFuture<'a, HoldAnswer> {
        let (memory, asked, mark) = (self.memory.clone(), attempt.clone(), mark.clone());
        Box::pin(self.through("mark", Some(attempt), async move { memory.mark(&asked, &mark, keep).await }))
    }

    fn marked<'a>(&'a self, key: &'a Key) -> StoreFuture<'a, Marked> {
        let (memory, key) = (self.memory.clone(), key.clone());
        let ahead = self.facts().ahead;
        Box::pin(self.through("marked", None, async move {
            let mut marked = memory.marked(&key).await?;
            marked.now = marked.now + ahead;
            Ok(marked)
        }))
    }

    fn forget<'a>(&'a self, key: &'a Key) -> StoreFuture<'a, Option<Mark>> {
        let (memory, key) = (self.memory.clone(), key.clone());
        Box::pin(self.through("forget", None, async move { MarkStore::forget(&*memory, &key).await }))
    }

    fn list_marks<'a>(&'a self, prefix: &'a [u8]) -> StoreFuture<'a, Vec<(Key, Marked)>> {
        let (memory, prefix) = (self.memory.clone(), prefix.to_vec());
        Box::pin(self.through("list marks", None, async move { memory.list_marks(&prefix).await }))
    }
}

impl TransferStore for Faulty {
    fn transfer<'a>(&'a self, attempt: &'a Attempt, successor: &'a Successor) -> StoreFuture<'a, HoldAnswer> {
        let (memory, asked, successor) = (self.memory.clone(), attempt.clone(), successor.clone());
        let call = async move { memory.transfer(&asked, &successor).await };
        Box::pin(self.through("transfer", Some(attempt), call))
    }
}

impl AdminStore for Faulty {
    fn warnings(&self) -> Vec<String> {
        self.facts().warning.map(str::to_owned).into_iter().collect()
    }

    fn break_lease<'a>(&'a self, key: &'a Key, lease: &'a LeaseBreak) -> StoreFuture<'a, BreakAnswer> {
        let (memory, key, lease) = (self.memory.clone(), key.clone(), lease.clone());
        Box::pin(self.through("break", None, async move { memory.break_lease(&key, &lease).await }))
    }

    fn last_break<'a>(&'a self, key: &'a Key) -> StoreFuture<'a, Option<BreakRecord>> {
        let (memory, key) = (self.memory.clone(), key.clone());
        Box::pin(self.through("last break", None, async move { memory.last_break(&key).await }))
    }

    fn list_breaks<'a>(&'a self, prefix: &'a [u8]) -> StoreFuture<'a, Vec<BreakRecord>> {
        let (memory, prefix) = (self.memory.clone(), prefix.to_vec());
        Box::pin(self.through("list breaks", None, async move { memory.list_breaks(&prefix).await }))
    }

    fn diagnose(&self, _: StoreRole) -> BoxFuture<'_, Diagnosis> {
        let diagnosis = self.facts().diagnosis;
        Box::pin(async move {
            let diagnosed = self.through("diagnose", None, async move { Ok(diagnosis) }).await;
            diagnosed.unwrap_or_default()
        })
    }
}

impl BaselineStore for Faulty {
    /// It has no baseline to measure, so this ends at once.
    fn run_baseline<'a>(&'a self, _: &'a Baseline) -> StoreFuture<'a, ()> {
        Box::pin(self.through("bare", None, async { Ok(()) }))
    }
}

pub fn passing(reason: impl fmt::Display) -> CallFate {
    CallFate::Failing(Fault::passing("a store", reason))
}

pub fn lasting(reason: impl fmt::Display) -> CallFate {
    CallFate::Failing(Fault::lasting("a store", reason))
}
