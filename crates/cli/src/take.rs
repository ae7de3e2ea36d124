//! Taking the lock that is wanted, and giving it back.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use leasehold::{Acquire, Guard, Held, Key, LockError, Locks, Mode, ReleaseError, Renewal, Tenant, Waiting};
use rustix::process::Signal;
use tokio::time::timeout;

use crate::exit::Failure;
use crate::place::OUTAGE_LIMIT;
use crate::say;
use crate::signals::Signals;
use crate::status::{Event, Status, millis, text_of};
use crate::wanted::{Patience, Wanted};

/// What came of the wish.
#[derive(Debug)]
pub(crate) enum Taken {
    Lock(Locks, Guard),
    Interrupted(Signal),
}

/// How long what a request may have left behind is given to be undone. A store that answers needs milliseconds.
const UNDOING: Duration = Duration::from_secs(3);

/// Waits for the lock, as long as it is wanted.
///
/// # Errors
///
/// [`Failure`], when it was not had.
pub(crate) async fn take(wanted: &Wanted, signals: &mut Signals) -> Result<Taken, Failure> {
    let started = Instant::now();
    let locks = match reach(wanted, signals).await? {
        Ok(locks) => locks,
        Err(signal) => return Ok(Taken::Interrupted(signal)),
    };
    let mut request = request(wanted, &locks).on_wait(teller(wanted));
    if let Some(within) = wanted.patience.left(started) {
        request = request.within(within);
    }
    match unless_told_to_end(&locks, signals, request.into_future()).await {
        Ok(Ok(guard)) => {
            had(wanted, &locks, &guard, started.elapsed()).await;
            Ok(Taken::Lock(locks, guard))
        }
        Ok(Err(error)) => {
            undo(&locks, signals).await;
            Err(not_taken(wanted, &locks, error))
        }
        Err(signal) => Ok(Taken::Interrupted(signal)),
    }
}

/// Connects to the store, unless a signal comes first.
///
/// # Errors
///
/// [`Failure`], when it does not answer, or refuses.
pub(crate) async fn reach(wanted: &Wanted, signals: &mut Signals) -> Result<Result<Locks, Signal>, Failure> {
    if wanted.verbose {
        say::line(format_args!("{}: waiting at {}", wanted.keys, wanted.place.store));
    }
    let reached = tokio::select! {
        biased;
        signal = signals.next() => Ok(Err(signal)),
        locks = connect(wanted) => locks.map(Ok),
    };
    if let Ok(Ok(locks)) = &reached {
        signals.mind(locks);
    }
    reached
}

/// What the request comes to, or the signal that came first: then the request is given up.
pub(crate) async fn unless_told_to_end<T>(
    locks: &Locks,
    signals: &mut Signals,
    request: impl Future<Output = T>,
) -> Result<T, Signal> {
    let signal = {
        let request = pin!(request);
        tokio::select! {
            biased;
            signal = signals.next() => signal,
            outcome = request => return Ok(outcome),
        }
    };
    Err(undo(locks, signals).await.unwrap_or(signal))
}

/// Sees to a lock that was just had, and tells.
pub(crate) async fn had(wanted: &Wanted, locks: &Locks, guard: &Guard, waited: Duration) {
    claim(wanted, guard).await;
    tell_taken(wanted, locks, guard, waited);
}

fn request(wanted: &Wanted, locks: &Locks) -> Acquire {
    let keys = wanted.keys.iter();
    match wanted.mode {
        Mode::Shared => locks.rw_lock_all(keys).read(),
        Mode::Permits { weight, of } => locks.semaphore_all(keys, of).acquire_many(weight),
        _ => locks.mutex_all(keys).lock(),
    }
}

/// Makes a lock that was handed over in line last its ttl. It lasts a short window until it is renewed for the first time, and a
/// command that is to have its grace before the lease's end would be told to end at once.
async fn claim(wanted: &Wanted, guard: &Guard) {
    let ttl = wanted.ttl.duration();
    if guard.remaining() < ttl / 2 {
        let left =
            wanted.max_hold.map_or(ttl, |max_hold| max_hold.saturating_sub(guard.held_for() + SENDING));
        // If it fails, the lease is as good as before, and renewed like any other.
        let _ = guard.renew(ttl.min(left)).await;
    }
}

/// A renewal is sent some time after its length was computed, and must not pass the longest hold.
const SENDING: Duration = Duration::from_millis(50);

async fn connect(wanted: &Wanted) -> Result<Locks, Failure> {
    let renewal = wanted.max_hold.map_or(Renewal::Automatic, Renewal::AtMost);
    let builder = Locks::builder().ttl(wanted.ttl.duration()).label(&wanted.label).renewal(renewal);
    let builder = builder.signal(wanted.signal);
    let builder = match wanted.patience {
        // Whoever waits two seconds for a lock does not want to wait ten for a server; a second is enough for one that is up.
        Patience::Within(within) => builder.outage_limit(within.clamp(Duration::from_secs(1), OUTAGE_LIMIT)),
        _ => builder.outage_limit(OUTAGE_LIMIT),
    };
    wanted.place.connect(builder, wanted.quiet).await
}

/// Says for whom we wait: to people once, and again when another of our keys is in the way; to programs for each holder.
pub(crate) fn teller(wanted: &Wanted) -> impl Fn(&Waiting) + Send + Sync + 'static {
    let keys = wanted.keys.texts();
    let status = wanted.status.clone();
    let aloud = wanted.is_aloud();
    let last: Mutex<Option<(Key, Tenant)>> = Mutex::default();
    move |waiting| {
        let Waiting { held_by, place, .. } = waiting;
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        let key = &held_by.key;
        if aloud && last.as_ref().is_none_or(|(last, _)| last != key) {
            let place = place.map_or_else(String::new, |place| format!(", place {place} in line"));
            say::line(format_args!("waiting for {key}, held by {held_by}{place}"));
        }
        if last.as_ref().is_none_or(|(last, tenant)| (last, tenant) != (key, &held_by.tenant)) {
            status.tell(Event::Waiting {
                key: &text_of(key),
                keys: &keys,
                held_by: &held_by.tenant.to_string(),
                place: *place,
                remaining_ms: held_by.remaining.map(millis),
            });
            *last = Some((key.clone(), held_by.tenant.clone()));
        }
    }
}

fn tell_taken(wanted: &Wanted, locks: &Locks, guard: &Guard, waited: Duration) {
    if wanted.verbose {
        say::line(format_args!("{}: taken at {}, fence {}", wanted.keys, locks.store(), guard.fence()));
    }
    wanted.status.tell(Event::Acquired {
        key: &text_of(wanted.keys.first()),
        keys: &wanted.keys.texts(),
        fence: guard.fence().get(),
        label: &wanted.label,
        store: locks.store(),
        ttl_ms: millis(wanted.ttl.duration()),
        waited_ms: millis(waited),
    });
}

/// Tells of each renewal, and of the loss. Never resolves.
///
/// Cancel safe.
pub(crate) async fn tell_keeping(status: Arc<Status>, held: Held) -> Infallible {
    let mut lost = std::pin::pin!(held.lost());
    loop {
        let renewed = held.renewed();
        tokio::select! {
            biased;
            loss = &mut lost => {
                status.tell_lost(&loss.to_string());
                return std::future::pending().await;
            }
            () = renewed => status.tell(Event::Renewed { remaining_ms: millis(held.remaining()) }),
        }
    }
}

pub(crate) fn not_taken(wanted: &Wanted, locks: &Locks, error: LockError) -> Failure {
    let LockError::TimedOut { key, held_by, place, waited, .. } = &error else { return Failure::from(error) };
    let tenant = held_by.as_ref().map(|held_by| held_by.tenant.to_string());
    let held_by = held_by.as_ref().map_or_else(|| "others".into(), ToString::to_string);
    let line = match wanted.patience {
        Patience::OneTry => {
            format!(
                "{key}: held by {held_by}, at {}: try again later, or wait with --within TIME",
                locks.store()
            )
        }
        _ => format!(
            "{key}: not free within {:.1} s, held by {held_by}{}, at {}: try again later, or wait longer",
            waited.as_secs_f64(),
            place.map_or_else(String::new, |place| format!(", place {place} in line")),
            locks.store()
        ),
    };
    let failure = Failure::new(wanted.busy, line);
    wanted.status.tell(Event::Busy {
        key: &text_of(key),
        keys: &wanted.keys.texts(),
        held_by: tenant.as_deref(),
        waited_ms: millis(*waited),
        code: failure.code(),
    });
    if wanted.quiet { failure.silent() } else { failure }
}

/// Waits until nothing of a request is left. Gives back the signal that cut that short.
pub(crate) async fn undo(locks: &Locks, signals: &mut Signals) -> Option<Signal> {
    tokio::select! {
        // What is not undone in time ends with the lease that nobody renews.
        _ = locks.close(UNDOING) => None,
        signal = signals.next() => Some(signal),
    }
}

/// What became of the lock when we needed it no more.
#[derive(Debug)]
pub(crate) enum Return {
    Done,
    /// It had been lost before.
    NotOurs(ReleaseError),
    /// The store did not say, and this is what to say of it.
    Unconfirmed(String),
}

/// Releases the lock, for no longer than its lease lasts, and leaves nothing.
pub(crate) async fn give_back(wanted: &Wanted, locks: &Locks, guard: Guard, signals: &mut Signals) -> Return {
    let keys = &wanted.keys;
    let left = guard.remaining();
    let released = tokio::select! {
        released = timeout(left, guard.release()) => released.ok(),
        _ = signals.next() => None,
    };
    match released {
        Some(Ok(())) => {
            wanted.status.tell(Event::Released);
            undo_for(locks, left, signals).await;
            Return::Done
        }
        // What the store may still have of it for a moment is being taken back.
        Some(Err(
            error @ (ReleaseError::Expired { .. }
            | ReleaseError::Broken { .. }
            | ReleaseError::TakenByOther { .. }),
        )) => {
            undo_for(locks, UNDOING_THE_LOST, signals).await;
            Return::NotOurs(error)
        }
        Some(Err(error)) => Return::Unconfirmed(format!("{keys}: {error}: others must wait for that")),
        None => Return::Unconfirmed(format!(
            "{keys}: {} did not confirm the release: others may have to wait for the lease's end",
            locks.store()
        )),
    }
}

/// One call to a store that answers slowly: what was lost ends by itself soon after.
const UNDOING_THE_LOST: Duration = Duration::from_secs(1);

async fn undo_for(locks: &Locks, within: Duration, signals: &mut Signals) {
    tokio::select! {
        _ = locks.close(within.min(UNDOING)) => {}
        _ = signals.next() => {}
    }
}
