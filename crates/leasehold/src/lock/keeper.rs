//! The keeper: one task that renews all guards of a [`Locks`](crate::Locks), and reports lost ones.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use leasehold_core::{Attempt, Fault, FaultCause, HoldAnswer, Instant, Notice, Notices, Runtime, Store};
use tokio::sync::Semaphore;

use super::registry::{Due, GuardRegistry};
use super::undoing::undo;
use crate::event::Event;

/// The most renewals in one request to the store: enough to share the cost of a round trip, few
/// enough to stay well below a store's time limit.
const BATCH: usize = 200;

/// The number of requests in flight at once: enough to keep a store busy, and few enough that each
/// is answered well within its limit, however many leases become due together. Requests that ran
/// into their limits would have to be repeated, and a store that is too busy for them would do most
/// of its work in vain.
const AT_ONCE: usize = 4;

/// A request that is unanswered for this long no longer makes others wait: it may concern only one
/// silent member or node of several.
const TURN: Duration = Duration::from_millis(100);

/// Keeps the guards of `registry` until nobody needs the keeper. If the runtime ends first, even
/// before this has run once, all guards are lost.
pub(crate) fn keep(
    registry: Arc<GuardRegistry>,
    store: Arc<dyn Store>,
    runtime: Arc<dyn Runtime>,
) -> impl Future<Output = ()> + Send {
    let end = End { registry: registry.clone(), store: store.clone(), runtime: runtime.clone() };
    async move {
        let _end = end;
        let mut notices = None;
        let turns = Arc::new(Semaphore::new(AT_ONCE));
        while !registry.is_deserted() {
            for batch in batches(registry.take_due(runtime.now())) {
                // Run it in a separate task, so that a store that does not answer delays neither
                // other renewals nor the report of a loss.
                let (store, turns) = (store.clone(), turns.clone());
                runtime.spawn(Box::pin(renew(registry.clone(), store, runtime.clone(), turns, batch)));
            }
            // Listen only once there is a guard to lose or a request that waits; before that, no
            // notice matters.
            if notices.is_none() && registry.is_concerned() {
                notices = store.notices();
            }
            let until = registry.sleep_until(runtime.now());
            tokio::select! {
                biased;
                () = runtime.sleep_until(until) => {}
                () = registry.changed() => {}
                notice = next(&mut notices) => handle(&registry, notice, runtime.now()),
            }
        }
    }
}

async fn next(notices: &mut Option<Box<dyn Notices>>) -> Notice {
    match notices {
        Some(notices) => notices.next().await,
        None => std::future::pending().await,
    }
}

fn handle(registry: &GuardRegistry, notice: Notice, now: Instant) {
    let event = match notice {
        // It is reported with the loss.
        Notice::Broken { holder } => return registry.handle_broken(holder, now),
        Notice::MemberDown { fault } => Event::MemberDown { fault },
        Notice::MemberBack { store } => Event::MemberBack { store },
        Notice::PushDown { fault } => Event::PushDown { fault },
        Notice::PushBack { store } => Event::PushBack { store },
        Notice::Missed { notices } => Event::Missed { events: notices },
        _ => return,
    };
    registry.report.tell(|| event);
}

/// Groups leases of similar TTL: a store's time limit for a request depends on the shortest TTL in
/// it, and short leases should not shorten the limit of long ones.
fn batches(mut due: Vec<Due>) -> Vec<Vec<Due>> {
    let magnitude = |due: &Due| due.attempt.ttl.as_millis().ilog2();
    due.sort_by_key(magnitude);
    let mut batches: Vec<Vec<Due>> = Vec::new();
    for one in due {
        match batches.last_mut() {
            Some(batch) if batch.len() < BATCH && magnitude(&batch[0]) == magnitude(&one) => batch.push(one),
            _ => batches.push(vec![one]),
        }
    }
    batches
}

async fn renew(
    registry: Arc<GuardRegistry>,
    store: Arc<dyn Store>,
    runtime: Arc<dyn Runtime>,
    turns: Arc<Semaphore>,
    due: Vec<Due>,
) {
    // The semaphore is never closed.
    let turn = turns.acquire().await;
    let due = registry.still_due(due, runtime.now());
    if due.is_empty() {
        return;
    }
    // A store of the application's own may never answer. Then all are asked for once more before the
    // first of these leases ends.
    let until = runtime.now() + due.iter().map(|due| due.term.duration() / 2).min().unwrap_or_default();
    let (numbers, attempts): (Vec<_>, Vec<_>) = due.into_iter().map(|due| (due.number, due.attempt)).unzip();
    let mut answering = pin!(renewed_or_panicked(&*store, &attempts));
    let mut answers = runtime.within(TURN, &mut answering).await;
    drop(turn);
    if answers.is_none() {
        answers = runtime.before(until, answering).await;
    }
    let answers = match answers {
        Some(answers) => answers,
        None if registry.keeps_any(&numbers) => {
            let silent = Fault::passing(store.name(), "it left a renewal unanswered");
            vec![Err(silent.caused_by(FaultCause::TimedOut)); attempts.len()]
        }
        None => return,
    };
    let now = runtime.now();
    // Report once for the whole call, because all its leases had the same result.
    if let Some(answer) = answers.iter().find(|answer| answer.is_err()).or(answers.first()) {
        registry.report.answered(answer);
    }
    for ((number, attempt), answer) in numbers.into_iter().zip(&attempts).zip(answers) {
        let votes =
            if matches!(answer, Ok(HoldAnswer::NotHeld { .. })) { store.take_report(attempt) } else { None };
        registry.change(number, now, |machine| {
            match answer {
                Ok(answer) => machine.handle_answer(now, answer),
                Err(fault) => machine.handle_fault(now, fault, runtime.random_bits()),
            }
            votes.into_iter().for_each(|votes| machine.handle_votes(votes));
        });
    }
}

/// Renews leases. An attempt that a store of the application's own leaves unanswered meets a fault.
pub(crate) async fn renewed(store: &dyn Store, attempts: &[Attempt]) -> Vec<Result<HoldAnswer, Fault>> {
    let mut answers = store.renew(attempts).await;
    answers.resize_with(attempts.len(), || Err(Fault::passing(store.name(), "it left a renewal unanswered")));
    answers
}

/// The same. If the store panics, every attempt meets a fault, and so is renewed again.
async fn renewed_or_panicked(store: &dyn Store, attempts: &[Attempt]) -> Vec<Result<HoldAnswer, Fault>> {
    let mut renewing = pin!(renewed(store, attempts));
    let answers = poll_fn(|context| {
        let polled = catch_unwind(AssertUnwindSafe(|| renewing.as_mut().poll(context)));
        polled.map_or(Poll::Ready(None), |polled| polled.map(Some))
    });
    let panicked = || Err(Fault::passing(store.name(), "it panicked during a renewal"));
    answers.await.unwrap_or_else(|| attempts.iter().map(|_| panicked()).collect())
}

/// Ends all guards when the keeper ends, for whatever reason: a guard that nobody keeps must not be
/// relied on. Their locks are released, because a guard may outlive its runtime for long.
struct End {
    registry: Arc<GuardRegistry>,
    store: Arc<dyn Store>,
    runtime: Arc<dyn Runtime>,
}

impl Drop for End {
    fn drop(&mut self) {
        self.registry.refuse("the runtime that keeps them has ended");
        for attempt in self.registry.abandon(self.runtime.now()) {
            undo(&self.store, &self.runtime, &self.registry, attempt, |_| {});
        }
    }
}

#[cfg(test)]
mod tests {
    use leasehold_core::{Claim, Holder, Key, Ttl};

    use super::*;

    /// The store would have to answer about all of them as soon as about the shortest.
    #[test]
    fn leases_of_similar_ttls_are_renewed_together_and_long_ones_apart_from_short_ones() {
        let due = |(number, millis): (u64, u64)| {
            let key = Key::new(number.to_string()).unwrap();
            let ttl = Ttl::new(Duration::from_millis(millis)).unwrap();
            let attempt = Attempt::new(Claim::exclusive(key), Holder::from_bits(number.into()), None, ttl);
            Due { number, attempt, term: ttl }
        };
        let due = [(1, 60_000), (2, 300), (3, 50_000), (4, 500), (5, 60_000)].map(due);
        let numbers = |batch: Vec<Due>| batch.iter().map(|due| due.number).collect::<Vec<_>>();
        let batches: Vec<_> = batches(due.into()).into_iter().map(numbers).collect();
        assert_eq!(batches, [vec![2, 4], vec![1, 3, 5]]);
    }
}
