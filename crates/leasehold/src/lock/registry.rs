//! The registry of live guards, and the time at which each lease needs attention.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use leasehold_core::{Attempt, Drift, Holder, Instant, LeaseRenewal, Renewal, RenewalStep, Ttl, locked};
use tokio::sync::Notify;

use super::closing::{Closed, Closing};
use super::holding::Holding;
use crate::event::Event;
use crate::report::Report;

/// The guards of one [`Locks`](crate::Locks) and all its clones.
///
/// Acquiring and releasing a lock only touch this table. The keeper is woken when a lease becomes
/// due earlier than the keeper's timer.
pub(crate) struct GuardRegistry {
    state: Mutex<State>,
    /// Wakes the keeper.
    changed: Notify,
    closing: Closing,
    /// The number of requests that may ask the store.
    requests: AtomicUsize,
    /// Wakes a close that waits: a request, a guard or a background release has ended.
    quieter: Notify,
    pub(crate) report: Arc<Report>,
}

#[derive(Debug, Default)]
struct State {
    /// Boxed, so that free places of the tree are small.
    guards: BTreeMap<u64, Box<Entry>>,
    /// When each lease needs attention, the earliest first.
    due: BTreeSet<(Instant, u64)>,
    /// The keeper wakes by itself by then; `None` if it does not.
    asleep_until: Option<Instant>,
    last_number: u64,
    /// The number of releases in the background.
    pending_releases: usize,
    /// Nobody can request a lock any more.
    orphaned: bool,
    /// There was a guard, or a request has waited or met a fault.
    concerned: bool,
    untold: Untold,
    /// Holders whose leases were reported broken while no guard had them, because a lease may be
    /// granted but not registered yet. The last few.
    broken: VecDeque<Holder>,
}

/// What happened while the table was locked. It is told afterwards, because a logger may block, and
/// whoever is woken may call these locks, or drop a guard.
#[derive(Debug, Default)]
struct Untold {
    /// Events that were entered and not published yet.
    events: Vec<Event>,
    /// Holdings with a new end or a loss.
    changed: Vec<Arc<Holding>>,
}

/// A grant is registered within one turn of a task; few leases are broken in that time.
const BROKEN_REMEMBERED: usize = 16;

#[derive(Debug)]
struct Entry {
    holding: Arc<Holding>,
    machine: LeaseRenewal,
    due: Instant,
}

/// A renewal that is due.
#[derive(Debug)]
pub(crate) struct Due {
    pub(crate) number: u64,
    pub(crate) attempt: Attempt,
    /// The length of the lease that it renews.
    pub(crate) term: Ttl,
}

impl GuardRegistry {
    pub(crate) fn new(report: Arc<Report>) -> Self {
        Self {
            state: Mutex::default(),
            changed: Notify::new(),
            closing: Closing::default(),
            requests: AtomicUsize::new(0),
            quieter: Notify::new(),
            report,
        }
    }

    /// Registers a holding, and returns its number.
    ///
    /// # Errors
    ///
    /// The reason, if these locks are closed: then nobody would keep the lease.
    pub(crate) fn enter(
        &self,
        holding: Arc<Holding>,
        mut machine: LeaseRenewal,
        acquired: impl FnOnce() -> Event,
    ) -> Result<u64, Arc<str>> {
        let now = holding.granted;
        let mut state = locked(&self.state);
        // Check while holding the table's mutex, so that a concurrent close finds the entry.
        if let Some(reason) = self.closed_because() {
            return Err(reason);
        }
        state.last_number += 1;
        let number = state.last_number;
        state.untold.events.extend(self.report.enter(acquired));
        if let Some(at) = state.broken.iter().position(|holder| *holder == holding.attempt.holder) {
            state.broken.remove(at);
            machine.handle_broken(now);
        }
        let due = self.attention(&holding, &mut machine, now, &mut state.untold);
        state.due.insert((due, number));
        state.guards.insert(number, Box::new(Entry { holding, machine, due }));
        self.wake_by(&mut state, due);
        self.concern_in(&mut state);
        self.unlock(state);
        Ok(number)
    }

    /// Removes a holding, which is to be released: nobody renews it any more.
    ///
    /// If it is lost by now, its guard knows it after this call.
    pub(crate) fn leave(self: &Arc<Self>, number: u64, now: Instant) -> PendingRelease {
        let mut state = locked(&self.state);
        state.pending_releases += 1;
        if let Some(mut entry) = state.guards.remove(&number) {
            state.due.remove(&(entry.due, number));
            self.attention(&entry.holding, &mut entry.machine, now, &mut state.untold);
        }
        self.hush(state);
        PendingRelease(self.clone())
    }

    /// All holdings that are not lost.
    pub(crate) fn holdings(&self) -> Vec<Arc<Holding>> {
        let state = locked(&self.state);
        let held = state.guards.values().filter(|entry| entry.holding.loss().is_none());
        held.map(|entry| entry.holding.clone()).collect()
    }

    /// The renewals that are due now. Leases that are lost by now are marked as lost.
    pub(crate) fn take_due(&self, now: Instant) -> Vec<Due> {
        let mut state = locked(&self.state);
        let mut renewals = Vec::new();
        while let Some((_, number)) = state.due.first().copied().filter(|(due, _)| *due <= now) {
            let Some(entry) = state.guards.get_mut(&number) else {
                state.due.pop_first();
                continue;
            };
            if let RenewalStep::Renew(ttl) = entry.machine.next(now) {
                entry.machine.handle_sent(now, ttl);
                let term = entry.machine.term();
                renewals.push(Due { number, attempt: entry.holding.request(ttl), term });
            }
            self.reschedule(&mut state, number, now);
        }
        self.unlock(state);
        renewals
    }

    /// The subset that is still kept after waiting for a permit to send. Their requests count as
    /// sent from now on, not since they became due, and say how each lock is held now.
    pub(crate) fn still_due(&self, mut due: Vec<Due>, now: Instant) -> Vec<Due> {
        let mut state = locked(&self.state);
        due.retain_mut(|Due { number, attempt, .. }| match state.guards.get_mut(number) {
            Some(entry) if entry.machine.loss().is_none() => {
                entry.machine.handle_sent(now, attempt.ttl);
                *attempt = entry.holding.request(attempt.ttl);
                true
            }
            _ => false,
        });
        due
    }

    /// Returns true if one of these leases is still kept.
    pub(crate) fn keeps_any(&self, numbers: &[u64]) -> bool {
        let state = locked(&self.state);
        let mut entries = numbers.iter().filter_map(|number| state.guards.get(number));
        entries.any(|entry| entry.holding.loss().is_none())
    }

    /// When the keeper should wake by itself; it promises not to sleep longer.
    ///
    /// Without guards, it still wakes when the last one would have been due. So a program that
    /// takes one lock after the other wakes it once and not for each.
    pub(crate) fn sleep_until(&self, now: Instant) -> Instant {
        let mut state = locked(&self.state);
        let due = state.due.first().map(|(due, _)| *due);
        let announced = state.asleep_until.filter(|until| *until > now);
        state.asleep_until = due.or(announced);
        state.asleep_until.unwrap_or(Instant::from_nanos(u64::MAX))
    }

    /// Makes the keeper wake by this instant.
    fn wake_by(&self, state: &mut State, due: Instant) {
        if state.asleep_until.is_none_or(|until| due < until) {
            state.asleep_until = Some(due);
            self.changed.notify_one();
        }
    }

    /// Resolves when the keeper should check again.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Changes the renewal of a lease that is still kept, under the mutex: no renewal is half made.
    pub(crate) fn change(&self, number: u64, now: Instant, change: impl FnOnce(&mut LeaseRenewal)) {
        let mut state = locked(&self.state);
        if let Some(entry) = state.guards.get_mut(&number) {
            change(&mut entry.machine);
            self.reschedule(&mut state, number, now);
            if let Some((due, _)) = state.due.first().copied() {
                self.wake_by(&mut state, due);
            }
        }
        self.unlock(state);
    }

    /// Handles a report that somebody broke a lease: the guard that may have it asks the store at
    /// once.
    pub(crate) fn handle_broken(&self, holder: Holder, now: Instant) {
        let number = {
            let mut state = locked(&self.state);
            // A linear search, because this is rare.
            let mut guards = state.guards.iter();
            let found = guards.find(|(_, entry)| entry.holding.attempt.holder == holder);
            let number = found.map(|(number, _)| *number);
            if number.is_none() {
                state.broken.truncate(BROKEN_REMEMBERED - 1);
                state.broken.push_front(holder);
            }
            number
        };
        if let Some(number) = number {
            self.change(number, now, |machine| machine.handle_broken(now));
        }
    }

    /// Notes that a request waits or that the store does not answer. From then on the store's
    /// notices are read.
    pub(crate) fn concern(&self) {
        self.concern_in(&mut locked(&self.state));
    }

    fn concern_in(&self, state: &mut State) {
        if !std::mem::replace(&mut state.concerned, true) {
            self.changed.notify_one();
        }
    }

    /// Returns true if there was ever a guard or another reason to read the store's notices.
    pub(crate) fn is_concerned(&self) -> bool {
        locked(&self.state).concerned
    }

    /// The lease's current TTL, how it is renewed, and the drift of the clocks that it allows for;
    /// `None` once nobody keeps it.
    pub(crate) fn terms(&self, number: u64) -> Option<(Ttl, Renewal, Drift)> {
        let state = locked(&self.state);
        let machine = &state.guards.get(&number)?.machine;
        Some((machine.ttl(), machine.renewal(), machine.drift()))
    }

    /// Notes that nobody can request a lock any more, so the keeper ends with the last guard.
    pub(crate) fn orphan(&self) {
        locked(&self.state).orphaned = true;
        self.changed.notify_one();
    }

    /// Returns true if the keeper is no longer needed.
    pub(crate) fn is_deserted(&self) -> bool {
        let state = locked(&self.state);
        state.guards.is_empty() && (state.orphaned || self.closed_because().is_some())
    }

    /// Notes that a request begins.
    pub(crate) fn begin_request(&self) {
        self.requests.fetch_add(1, Ordering::SeqCst);
    }

    /// Notes that a request has ended, and that what it may have left is being released.
    pub(crate) fn end_request(&self) {
        self.requests.fetch_sub(1, Ordering::SeqCst);
        if self.closed_because().is_some() {
            self.quieter.notify_waiters();
        }
    }

    /// Returns true if a request is in progress.
    pub(crate) fn has_requests(&self) -> bool {
        self.requests.load(Ordering::SeqCst) > 0
    }

    /// Resolves when no request is in progress, once these locks are closed.
    pub(crate) async fn no_requests(&self) {
        self.becomes(|| !self.has_requests()).await;
    }

    /// Registers a release.
    pub(crate) fn begin_release(self: &Arc<Self>) -> PendingRelease {
        locked(&self.state).pending_releases += 1;
        PendingRelease(self.clone())
    }

    /// Refuses requests from now on.
    pub(crate) fn refuse(&self, reason: &str) {
        self.closing.close(reason);
        self.changed.notify_one();
    }

    /// Declares all guards lost; returns their attempts, for the releases.
    pub(crate) fn abandon(&self, now: Instant) -> Vec<Attempt> {
        let reason = self.closed_because().unwrap_or_else(|| "closed".into());
        let mut state = locked(&self.state);
        let mut attempts = Vec::new();
        let State { guards, untold, .. } = &mut *state;
        for entry in guards.values_mut() {
            if entry.holding.loss().is_none() {
                attempts.push(entry.holding.left(now));
            }
            entry.machine.handle_close(reason.clone());
            self.attention(&entry.holding, &mut entry.machine, now, untold);
        }
        state.guards.clear();
        state.due.clear();
        self.hush(state);
        attempts
    }

    /// The reason why these locks are closed, if they are.
    pub(crate) fn closed_because(&self) -> Option<Arc<str>> {
        self.closing.reason.get().cloned()
    }

    /// Resolves when these locks are closed.
    pub(crate) const fn closed(&self) -> Closed<'_> {
        self.closing.closed()
    }

    /// Resolves when no guard is held and no release is in progress.
    pub(crate) async fn quiet(&self) {
        let all_lost = |state: &State| state.guards.values().all(|entry| entry.holding.loss().is_some());
        self.becomes(|| {
            let state = locked(&self.state);
            state.pending_releases == 0 && all_lost(&state)
        })
        .await;
    }

    /// Resolves when this is so, which it can become only when something has ended.
    async fn becomes(&self, so: impl Fn() -> bool) {
        loop {
            let quieter = self.quieter.notified();
            if so() {
                return;
            }
            quieter.await;
        }
    }

    /// The number of releases in progress.
    pub(crate) fn pending_releases(&self) -> usize {
        locked(&self.state).pending_releases
    }

    /// Unlocks the table, and wakes tasks that wait in `quiet`, and the keeper if it may not be needed
    /// any more.
    fn hush(&self, state: MutexGuard<'_, State>) {
        let is_deserted = state.guards.is_empty() && state.orphaned;
        self.unlock(state);
        self.quieter.notify_waiters();
        if is_deserted {
            self.changed.notify_one();
        }
    }

    fn reschedule(&self, state: &mut State, number: u64, now: Instant) {
        let State { guards, due, untold, .. } = state;
        let Some(entry) = guards.get_mut(&number) else { return };
        due.remove(&(entry.due, number));
        entry.due = self.attention(&entry.holding, &mut entry.machine, now, untold);
        if entry.holding.loss().is_none() {
            due.insert((entry.due, number));
        }
    }

    /// Publishes the state of the lease to its guard, and returns when the lease needs attention
    /// again.
    fn attention(
        &self,
        holding: &Arc<Holding>,
        machine: &mut LeaseRenewal,
        now: Instant,
        untold: &mut Untold,
    ) -> Instant {
        let next = machine.next(now);
        if holding.believe(machine.lease()) {
            untold.changed.push(Arc::clone(holding));
            untold.events.extend(self.report.enter(|| holding.was_renewed(now)));
        }
        match next {
            RenewalStep::WaitUntil(until) => until,
            RenewalStep::Lost(loss) => {
                if holding.lose(loss.clone()) {
                    untold.changed.push(Arc::clone(holding));
                    untold.events.extend(self.report.enter(|| holding.was_lost(now, loss)));
                }
                now
            }
            RenewalStep::Renew(_) => now,
        }
    }

    /// Unlocks the table, and tells what happened under it.
    fn unlock(&self, mut state: MutexGuard<'_, State>) {
        let Untold { events, changed } = std::mem::take(&mut state.untold);
        drop(state);
        self.report.publish(&events);
        changed.iter().for_each(|holding| holding.announce());
    }
}

/// Shows the number of guards, and not the guards: there may be very many.
impl fmt::Debug for GuardRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("GuardRegistry");
        // Never blocks, because the thread that prints may hold the mutex.
        if let Ok(state) = self.state.try_lock() {
            shown.field("guards", &state.guards.len()).field("releases_under_way", &state.pending_releases);
        }
        shown.finish_non_exhaustive()
    }
}

/// A release; [`GuardRegistry::quiet`] waits for it.
#[derive(Debug)]
#[must_use = "the release is in progress until this is dropped"]
pub(crate) struct PendingRelease(Arc<GuardRegistry>);

impl Drop for PendingRelease {
    fn drop(&mut self) {
        let mut state = locked(&self.0.state);
        state.pending_releases -= 1;
        self.0.hush(state);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::atomic::AtomicBool;
    use std::task::{Context, Poll, Wake, Waker};
    use std::time::Duration;

    use leasehold_core::{Claim, Drift, Fence, Key, Lease, Runtime};

    use super::*;
    use crate::lock::Held;
    use crate::runtime::TokioRuntime;

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(0) + Duration::from_millis(ms)
    }

    /// A registry that guards can enter at a time.
    fn a_registry() -> (Arc<GuardRegistry>, impl Fn(Instant) -> (Held, u64)) {
        let registry = Arc::new(GuardRegistry::new(Arc::new(Report::new("memory:"))));
        let runtime: Arc<dyn Runtime> = Arc::new(TokioRuntime::on_own_thread().unwrap());
        let entered = Arc::clone(&registry);
        let enter = move |now| {
            let claim = Claim::exclusive(Key::new("k").unwrap());
            let attempt = Attempt::new(claim, Holder::from_bits(1), None, Ttl::DEFAULT);
            let lease = Lease::counted_from(now, Ttl::DEFAULT, Drift::NONE);
            let machine = LeaseRenewal::new(now, lease, Ttl::DEFAULT, Drift::NONE, Renewal::Automatic);
            let holding = Holding::new(attempt, Fence::MAX, now, 1, lease, Arc::clone(&runtime));
            let held = Held(Arc::new(holding));
            let number = entered.enter(held.0.clone(), machine, || Event::Missed { events: 1 });
            (held, number.unwrap())
        };
        (registry, enter)
    }

    #[test]
    fn a_lease_is_not_believed_in_the_instant_in_which_it_ends() {
        let (_registry, enter) = a_registry();
        let (held, _) = enter(at(0));
        let end = held.0.end();
        assert!(held.0.is_valid_at(Instant::from_nanos(end.as_nanos() - 1)));
        assert!(!held.0.is_valid_at(end));
    }

    #[test]
    fn a_break_that_is_reported_before_its_guard_is_registered_is_checked_despite_many_others() {
        let (registry, enter) = a_registry();
        for others in 2..100 {
            registry.handle_broken(Holder::from_bits(others), at(0));
        }
        registry.handle_broken(Holder::from_bits(1), at(0));
        assert_eq!(locked(&registry.state).broken.len(), BROKEN_REMEMBERED);
        let _held = enter(at(1));
        assert_eq!(registry.take_due(at(1)).len(), 1, "its first renewal would be after ten seconds");
    }

    #[test]
    fn short_guards_one_after_the_other_wake_the_keeper_once() {
        let (registry, enter) = a_registry();
        let hold = |now| drop(registry.leave(enter(now).1, now));
        let wakes = || pin!(registry.changed()).poll(&mut Context::from_waker(Waker::noop())).is_ready();
        hold(at(0));
        assert!(wakes());
        let until = registry.sleep_until(at(1));
        assert!(until > at(1) && until < at(30_000), "{until:?}");
        hold(at(2));
        assert!(!wakes(), "it wakes before this one is due");
        assert_eq!(registry.sleep_until(until), Instant::from_nanos(u64::MAX));
        hold(until);
        assert!(wakes(), "it would not wake by itself");
    }

    #[test]
    fn the_keeper_is_woken_when_nobody_can_request_a_lock_any_more() {
        let (registry, _) = a_registry();
        let wakes = || pin!(registry.changed()).poll(&mut Context::from_waker(Waker::noop())).is_ready();
        assert!(!wakes());
        registry.orphan();
        assert!(wakes() && registry.is_deserted());
    }

    /// Notes if it could drop a guard when it was woken.
    struct DropsAGuard(Arc<GuardRegistry>, AtomicBool);

    impl Wake for DropsAGuard {
        fn wake(self: Arc<Self>) {
            self.1.store(self.0.state.try_lock().is_ok(), Ordering::SeqCst);
        }
    }

    /// Regression: an executor that dropped a guard when it was woken waited for a mutex that its own
    /// thread had locked.
    #[test]
    fn nobody_is_woken_by_a_loss_while_the_table_is_locked() {
        let (registry, enter) = a_registry();
        let (held, _) = enter(at(0));
        let woken = Arc::new(DropsAGuard(registry.clone(), AtomicBool::new(false)));
        let mut lost = pin!(held.lost());
        let waker = Waker::from(woken.clone());
        assert!(lost.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        assert_eq!(registry.abandon(at(1)).len(), 1);
        assert!(woken.1.load(Ordering::SeqCst), "it could drop a guard");
    }

    /// Regression: the same for a reader of events.
    #[test]
    fn no_reader_of_events_is_woken_while_the_table_is_locked() {
        let (registry, enter) = a_registry();
        let woken = Arc::new(DropsAGuard(registry.clone(), AtomicBool::new(false)));
        let waker = Waker::from(woken.clone());
        let mut events = registry.report.read();
        let mut next = || pin!(events.next()).poll(&mut Context::from_waker(&waker));
        assert!(next().is_pending());
        let _held = enter(at(0));
        assert!(woken.1.swap(false, Ordering::SeqCst), "it could drop a guard");
        assert!(next().is_ready() && next().is_pending());
        registry.abandon(at(1));
        assert!(woken.1.load(Ordering::SeqCst), "it could drop a guard");
        assert!(matches!(next(), Poll::Ready(Some(Event::Lost { .. }))));
    }
}
