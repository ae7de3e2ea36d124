//! Rules that can be left out, all in the simulated part, to show that the invariants notice.

use std::sync::{Arc, Mutex};

use clap::ValueEnum;
use leasehold_core::{
    Attempt, BoxFuture, Fault, GrantAnswer, HoldAnswer, Holder, Limits, Parts, Store, StoreFuture, WaitMode,
    Wake, locked,
};

/// A rule that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "verbatim")]
#[non_exhaustive]
pub enum Flaw {
    /// A lease is counted from its answer, not from before its request was sent.
    CountedFromAnswer,
    /// A member reports a raised fence without having been asked to raise it.
    NoRaise,
    /// A member whose answer was lost, or that refused, is not sent a release.
    ReleasedOnlyWhereGranted,
    /// A node that restarted without its state serves at once.
    NoQuarantine,
    /// A release frees the key even if somebody else holds it.
    ReleasedWithoutComparing,
    /// A fence is the last one plus one, whatever the clocks say.
    FenceWithoutFloor,
    /// Every round of an attempt has the same id at a member.
    OneIdForAllRounds,
    /// When an attempt is given up, a grant that is still in flight is not undone.
    LateGrantsNotUndone,
    /// Nodes serve a grant however late it arrives.
    NothingIsTooLate,
    /// A waiter learns of its turn only by a push, and never asks again.
    PushWithoutAsking,
    /// Holders consider a lease valid exactly as long as the store keeps it.
    NoDrift,
    /// A member that was away is joined although somebody else holds the key there.
    JoinedWithoutComparing,
}

/// A store that answers the first grant `Unfinished`, and the repetition, which counts, with the grant.
#[derive(Debug)]
pub(crate) struct CountedFromAnswer {
    store: Arc<dyn Store>,
    answered: Mutex<Vec<(Holder, GrantAnswer)>>,
}

impl CountedFromAnswer {
    pub(crate) fn over(store: Arc<dyn Store>) -> Arc<dyn Store> {
        Arc::new(Self { store, answered: Mutex::default() })
    }

    fn known(&self, holder: Holder) -> Option<GrantAnswer> {
        let mut answered = locked(&self.answered);
        let nth = answered.iter().position(|(of, _)| *of == holder)?;
        Some(answered.swap_remove(nth).1)
    }
}

impl Store for CountedFromAnswer {
    fn name(&self) -> &str {
        self.store.name()
    }

    fn limits(&self) -> Limits {
        self.store.limits()
    }

    fn open(&self) -> StoreFuture<'_, ()> {
        self.store.open()
    }

    fn grant<'a>(&'a self, attempt: &'a Attempt, wait_mode: WaitMode) -> StoreFuture<'a, GrantAnswer> {
        Box::pin(async move {
            if let Some(answer) = self.known(attempt.holder) {
                return Ok(answer);
            }
            let answer = self.store.grant(attempt, wait_mode).await?;
            if !matches!(answer, GrantAnswer::Granted { .. }) {
                return Ok(answer);
            }
            locked(&self.answered).push((attempt.holder, answer));
            Ok(GrantAnswer::Unfinished)
        })
    }

    fn renew<'a>(&'a self, attempts: &'a [Attempt]) -> BoxFuture<'a, Vec<Result<HoldAnswer, Fault>>> {
        self.store.renew(attempts)
    }

    fn release<'a>(&'a self, attempt: &'a Attempt) -> StoreFuture<'a, HoldAnswer> {
        self.store.release(attempt)
    }

    fn give_up<'a>(&'a self, attempt: &'a Attempt) -> StoreFuture<'a, ()> {
        self.store.give_up(attempt)
    }

    fn woken<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Wake> {
        self.store.woken(attempt)
    }

    fn parts(&self) -> Parts<'_> {
        Parts::default()
    }
}
