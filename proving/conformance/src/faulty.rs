//! A store that wraps another one and loses, delays and refuses its answers.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use leasehold_core::{
    AdminStore, Attempt, BatchServed, BoxFuture, BreakAnswer, BreakNote, BreakRecord, Fault, Fence,
    GrantAnswer, HoldAnswer, InspectStore, Key, KeyState, Limits, Mark, MarkStore, Marked, MemberStore,
    Notices, Parts, RaiseAnswer, Store, WaitMode, Wake,
};

/// The fate of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallFate {
    /// It is served.
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
    /// The store refuses.
    Refused,
    /// It never reaches the store, and the caller gets this error at once.
    Failing(Fault),
    /// It panics.
    Panics,
}

impl CallFate {
    /// The result of a call to the store with this name.
    ///
    /// # Errors
    ///
    /// The errors of the call, and those of its fate.
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

/// A store with injected faults.
#[derive(Debug)]
pub struct Faulty {
    store: Arc<dyn Store>,
    fate: Mutex<CallFate>,
    calls: AtomicU32,
    /// Batches do not serve keys that begin like this.
    left: Mutex<Option<&'static str>>,
    is_alone: AtomicBool,
}

impl Faulty {
    /// Wraps a store; at first, no fault is injected.
    #[must_use]
    pub fn over(store: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self {
            store,
            fate: Mutex::new(CallFate::Fair),
            calls: AtomicU32::new(0),
            left: Mutex::default(),
            is_alone: AtomicBool::new(false),
        })
    }

    /// Sets the fate of calls from now on.
    pub fn set(&self, fate: CallFate) {
        *self.fate.lock().unwrap_or_else(PoisonError::into_inner) = fate;
    }

    /// From now on, batches do not serve keys that begin like this.
    pub fn leave(&self, prefix: &'static str) {
        *self.left.lock().unwrap_or_else(PoisonError::into_inner) = Some(prefix);
    }

    /// From now on, it serves no batches.
    pub fn serve_alone(&self) {
        self.is_alone.store(true, Ordering::Relaxed);
    }

    /// The number of calls.
    #[must_use]
    pub fn calls(&self) -> u32 {
        self.calls.load(Ordering::Relaxed)
    }

    async fn through<T: Send + 'static>(
        &self,
        call: impl Future<Output = Result<T, Fault>> + Send + 'static,
    ) -> Result<T, Fault> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let fate = self.fate.lock().unwrap_or_else(PoisonError::into_inner).clone();
        fate.over(self.store.name(), call).await
    }
}

impl Store for Faulty {
    fn name(&self) -> &str {
        self.store.name()
    }

    fn limits(&self) -> Limits {
        self.store.limits()
    }

    fn open(&self) -> BoxFuture<'_, Result<(), Fault>> {
        let store = self.store.clone();
        Box::pin(self.through(async move { store.open().await }))
    }

    fn grant<'a>(
        &'a self,
        attempt: &'a Attempt,
        wait_mode: WaitMode,
    ) -> BoxFuture<'a, Result<GrantAnswer, Fault>> {
        let (store, attempt) = (self.store.clone(), attempt.clone());
        Box::pin(self.through(async move { store.grant(&attempt, wait_mode).await }))
    }

    fn renew<'a>(&'a self, attempts: &'a [Attempt]) -> BoxFuture<'a, Vec<Result<HoldAnswer, Fault>>> {
        let (store, these) = (self.store.clone(), attempts.to_vec());
        Box::pin(async move {
            let whole = self.through(async move { Ok(store.renew(&these).await) }).await;
            whole.unwrap_or_else(|fault| vec![Err(fault); attempts.len()])
        })
    }

    fn release<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Result<HoldAnswer, Fault>> {
        let (store, attempt) = (self.store.clone(), attempt.clone());
        Box::pin(self.through(async move { store.release(&attempt).await }))
    }

    fn give_up<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Result<(), Fault>> {
        let (store, attempt) = (self.store.clone(), attempt.clone());
        Box::pin(self.through(async move { store.give_up(&attempt).await }))
    }

    fn woken<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Wake> {
        self.store.woken(attempt)
    }

    fn parts(&self) -> Parts<'_> {
        Parts {
            member: Some(self),
            inspect: Some(self),
            marks: Some(self),
            admin: Some(self),
            ..Parts::default()
        }
    }
}

impl MemberStore for Faulty {
    fn serves_batches(&self) -> bool {
        let serves = || self.store.member().is_ok_and(MemberStore::serves_batches);
        !self.is_alone.load(Ordering::Relaxed) && serves()
    }

    fn serve_batch<'a>(
        &'a self,
        grants: &'a [&'a Attempt],
        releases: &'a [&'a Attempt],
    ) -> BoxFuture<'a, Result<BatchServed, Fault>> {
        let left = *self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let serves = move |attempt: &Attempt| {
            left.is_none_or(|left| !attempt.claim.first_key().as_bytes().starts_with(left.as_bytes()))
        };
        let served = |attempts: &[&Attempt]| -> Vec<Attempt> {
            attempts.iter().filter(|attempt| serves(attempt)).map(|attempt| (*attempt).clone()).collect()
        };
        let (store, granting, releasing) = (self.store.clone(), served(grants), served(releases));
        let call = self.through(async move {
            let (grants, releases): (Vec<_>, Vec<_>) =
                (granting.iter().collect(), releasing.iter().collect());
            store.member()?.serve_batch(&grants, &releases).await
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
        let (store, these) = (self.store.clone(), attempts.to_vec());
        Box::pin(async move {
            let whole = self.through(async move { Ok(store.member()?.rejoin(&these).await) }).await;
            whole.unwrap_or_else(|fault| vec![Err(fault); attempts.len()])
        })
    }

    fn raise<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Result<RaiseAnswer, Fault>> {
        let (store, attempt) = (self.store.clone(), attempt.clone());
        Box::pin(self.through(async move { store.member()?.raise(&attempt).await }))
    }
}

impl InspectStore for Faulty {
    fn inspect<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<KeyState, Fault>> {
        let (store, key) = (self.store.clone(), key.clone());
        Box::pin(self.through(async move { store.inspector()?.inspect(&key).await }))
    }

    fn list<'a>(&'a self, prefix: &'a [u8]) -> BoxFuture<'a, Result<Vec<KeyState>, Fault>> {
        let (store, prefix) = (self.store.clone(), prefix.to_vec());
        Box::pin(self.through(async move { store.inspector()?.list(&prefix).await }))
    }

    fn notices(&self) -> Option<Box<dyn Notices>> {
        self.store.notices()
    }
}

impl MarkStore for Faulty {
    fn mark<'a>(
        &'a self,
        attempt: &'a Attempt,
        mark: &'a Mark,
        keep: Duration,
    ) -> BoxFuture<'a, Result<HoldAnswer, Fault>> {
        let (store, attempt, mark) = (self.store.clone(), attempt.clone(), mark.clone());
        Box::pin(self.through(async move { store.marks()?.mark(&attempt, &mark, keep).await }))
    }

    fn marked<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Marked, Fault>> {
        let (store, key) = (self.store.clone(), key.clone());
        Box::pin(self.through(async move { store.marks()?.marked(&key).await }))
    }

    fn forget<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Mark>, Fault>> {
        let (store, key) = (self.store.clone(), key.clone());
        Box::pin(self.through(async move { store.marks()?.forget(&key).await }))
    }

    fn list_marks<'a>(&'a self, prefix: &'a [u8]) -> BoxFuture<'a, Result<Vec<(Key, Marked)>, Fault>> {
        let (store, prefix) = (self.store.clone(), prefix.to_vec());
        Box::pin(self.through(async move { store.marks()?.list_marks(&prefix).await }))
    }
}

impl AdminStore for Faulty {
    fn break_lease<'a>(
        &'a self,
        key: &'a Key,
        fence: Fence,
        note: &'a BreakNote,
    ) -> BoxFuture<'a, Result<BreakAnswer, Fault>> {
        let (store, key, note) = (self.store.clone(), key.clone(), note.clone());
        Box::pin(self.through(async move { store.admin()?.break_lease(&key, fence, &note).await }))
    }

    fn last_break<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<BreakRecord>, Fault>> {
        let (store, key) = (self.store.clone(), key.clone());
        Box::pin(self.through(async move { store.admin()?.last_break(&key).await }))
    }

    fn list_breaks<'a>(&'a self, prefix: &'a [u8]) -> BoxFuture<'a, Result<Vec<BreakRecord>, Fault>> {
        let (store, prefix) = (self.store.clone(), prefix.to_vec());
        Box::pin(self.through(async move { store.admin()?.list_breaks(&prefix).await }))
    }
}
