//! Acquiring the requested lock, and releasing it.

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use leasehold::{
    Acquire, Fault, FaultCause, FaultKind, Guard, Held, LockError, Locks, MemberVote, Mode, ReleaseError,
    RenewError, Renewal,
};
use rustix::io::Errno;
use rustix::process::Signal;
use tokio::time::sleep;

use crate::exit::Failure;
use crate::json::millis;
use crate::lock_request::{LockRequest, Patience};
use crate::say;
use crate::signals::Signals;
use crate::status::{Event, Status};
use crate::time;
use crate::waiting::{WaitReporter, since};

/// The time for undoing what a request may have left. A store that answers needs milliseconds.
const UNDOING: Duration = Duration::from_secs(3);

pub(crate) async fn take(request: &LockRequest, signals: &mut Signals) -> Result<(Locks, Guard), Failure> {
    match take_unless(pending::<Infallible>(), request, signals).await? {
        Ok(taken) => Ok(taken),
        Err(never) => match never {},
    }
}

/// The same, unless this future resolves first. Then the request is withdrawn.
pub(crate) async fn take_unless<E>(
    unwanted: impl Future<Output = E>,
    request: &LockRequest,
    signals: &mut Signals,
) -> Result<Result<(Locks, Guard), E>, Failure> {
    let started = Instant::now();
    let locks = reach(request, signals).await?;
    let first_limit = request.place.store.is_several().then(|| request.first_outage_limit());
    let telling = WaitReporter::of(request, &locks, started, first_limit.or(request.outage_limit()));
    let asking = async {
        let guard = with(telling, ask(request, &locks, started)).await?;
        had(request, &locks, &guard, started.elapsed()).await;
        Ok(guard)
    };
    let asking = async {
        tokio::select! {
            biased;
            asked = asking => Ok(asked),
            unwanted = unwanted => Err(unwanted),
        }
    };
    match unless_told_to_end(&locks, signals, asking).await? {
        Ok(Ok(guard)) => Ok(Ok((locks, guard))),
        Ok(Err(error)) => {
            if !is_refused_everywhere(&error) {
                undo(&locks, signals).await;
            }
            Err(not_taken(request, &locks, error))
        }
        Err(unwanted) => {
            undo(&locks, signals).await;
            Ok(Err(unwanted))
        }
    }
}

/// Refuses a limit of open files under which a store could never be opened: a request without a
/// limit would wait for ever.
fn check_limit_of_files() -> Result<(), Failure> {
    /// Of two files each: as many as a file store and the supervisor open.
    const PIPES: usize = 6;
    match (0..PIPES).map(|_| io::pipe()).collect::<Result<Vec<_>, _>>() {
        Err(error) if Errno::from_io_error(&error) == Some(Errno::MFILE) => Err(Failure::few_files(error)),
        _ => Ok(()),
    }
}

pub(crate) async fn reach(request: &LockRequest, signals: &mut Signals) -> Result<Locks, Failure> {
    check_limit_of_files()?;
    if request.verbose {
        say::line(format_args!("{}: asking {}", request.keys, request.place.store));
    }
    let locks = tokio::select! {
        biased;
        signal = signals.next() => return Err(Failure::interrupted(signal)),
        locks = connect(request) => locks?,
    };
    signals.mind(&locks);
    Ok(locks)
}

/// The result of the request, which is given up if a signal comes first.
pub(crate) async fn unless_told_to_end<T>(
    locks: &Locks,
    signals: &mut Signals,
    request: impl Future<Output = T>,
) -> Result<T, Failure> {
    let signal = {
        let request = pin!(request);
        tokio::select! {
            biased;
            signal = signals.next() => signal,
            outcome = request => return Ok(outcome),
        }
    };
    Err(Failure::interrupted(undo(locks, signals).await.unwrap_or(signal)))
}

pub(crate) async fn had(request: &LockRequest, locks: &Locks, guard: &Guard, waited: Duration) {
    claim(request, guard).await;
    if request.verbose {
        say::line(format_args!("{}: taken at {}, fence {}", request.keys, locks.store(), guard.fence()));
    }
    request.status.holds(guard.holder(), guard.fence());
    request.status.tell(Event::Acquired {
        label: &request.label,
        store: locks.store(),
        ttl_ms: millis(request.ttl.duration()),
        waited_ms: millis(waited),
    });
}

pub(crate) async fn with<T>(telling: WaitReporter<'_>, request: impl Future<Output = T>) -> T {
    tokio::select! {
        biased;
        outcome = request => outcome,
        never = telling.go_on() => match never {},
    }
}

pub(crate) const FOR_EVER: Duration = Duration::from_secs(10 * 365 * 86_400);

/// Requests the lock, for as long as requested. Without a limit, it waits for the store without one
/// too, once the store has answered: one that never did may be misspelt. That of several stores is
/// yet unknown.
async fn ask(request: &LockRequest, locks: &Locks, started: Instant) -> Result<Guard, LockError> {
    if let Some(within) = request.patience.left(started) {
        return acquisition(request, locks).within(within).await;
    }
    if request.outage_limit().is_some() {
        return acquisition(request, locks).await;
    }
    if request.place.store.is_several() {
        match acquisition(request, locks).within(Duration::ZERO).await {
            Err(LockError::TimedOut { .. }) => {}
            Err(error) if will_vote(&error) => {}
            other => return other,
        }
    }
    acquisition(request, &locks.clone().with_outage_limit(FOR_EVER)).await
}

/// True if enough stores answered to grant once all vote: those of a new quorum abstain.
fn will_vote(error: &LockError) -> bool {
    let LockError::NoQuorum { quorum_report, .. } = error else { return false };
    let answered = |vote: &MemberVote| match vote {
        MemberVote::Refused(fault) => fault.kind == FaultKind::Quarantined,
        vote => !matches!(vote, MemberVote::Silent(_) | MemberVote::Undecided),
    };
    let votes = quorum_report.members.iter().map(|(_, vote)| vote);
    votes.filter(|vote| answered(vote)).count() >= quorum_report.needed
}

/// True if nobody listens at any member: then no request is on its way, and nothing can be undone.
fn is_refused_everywhere(error: &LockError) -> bool {
    let LockError::NoQuorum { quorum_report, .. } = error else { return false };
    let refuses = |fault: &Fault| fault.cause == FaultCause::ConnectionRefused;
    quorum_report.members.iter().all(|(_, vote)| matches!(vote, MemberVote::Silent(fault) if refuses(fault)))
}

fn acquisition(request: &LockRequest, locks: &Locks) -> Acquire {
    let keys = request.keys.iter();
    match request.mode {
        Mode::Shared => locks.rw_lock_all(keys).read().untyped(),
        Mode::Permits { weight, of } => locks.semaphore_all(keys, of).acquire_many(weight).untyped(),
        _ => locks.mutex_all(keys).lock(),
    }
}

/// Extends a lock that was handed over in the queue to its TTL, until it is extended or has ended.
/// Before that it lasts for so short a window that the command would be told to end at once.
async fn claim(request: &LockRequest, guard: &Guard) {
    let ttl = request.ttl.duration();
    while guard.is_held() && guard.remaining() < ttl / 2 {
        let left =
            request.max_hold.map_or(ttl, |max_hold| max_hold.saturating_sub(guard.held_for() + SENDING));
        let Err(RenewError::Unreachable(_)) = guard.renew(ttl.min(left)).await else { break };
        sleep(BETWEEN_CLAIMS).await;
    }
}

const BETWEEN_CLAIMS: Duration = Duration::from_millis(50);

/// A renewal is sent some time after its length was computed, and must not exceed the longest hold.
const SENDING: Duration = Duration::from_millis(50);

async fn connect(request: &LockRequest) -> Result<Locks, Failure> {
    let renewal = request.max_hold.map_or(Renewal::Automatic, Renewal::AtMost);
    let builder = Locks::builder().ttl(request.ttl.duration()).label(&request.label);
    let builder = builder.renewal(renewal).signal(request.signal);
    request.place.connect(builder, request.first_outage_limit(), request.quiet).await
}

/// Reports each renewal, and the loss. Never resolves. Cancel safe.
pub(crate) async fn tell_keeping(status: Arc<Status>, held: Held) -> Infallible {
    let mut lost = pin!(held.lost());
    loop {
        let renewed = held.renewed();
        tokio::select! {
            biased;
            loss = &mut lost => {
                status.tell_lost(&loss.to_string());
                return pending().await;
            }
            () = renewed => status.tell(Event::Renewed { remaining_ms: millis(held.remaining()) }),
        }
    }
}

pub(crate) fn not_taken(request: &LockRequest, locks: &Locks, error: LockError) -> Failure {
    let LockError::TimedOut { key, held_by, place, waited, .. } = &error else { return Failure::from(error) };
    let owner = held_by.as_ref().map(|held_by| held_by.owner.to_string());
    let held_by = held_by.as_ref().map_or_else(
        || "others".into(),
        |held_by| {
            let since = held_by.fence.and_then(|fence| since(fence.get()));
            let taken = since.map_or_else(String::new, |since| format!(", taken {} ago", time::shown(since)));
            format!("{held_by}{taken}")
        },
    );
    let line = match request.patience {
        Patience::OneTry => {
            format!(
                "{key}: held by {held_by}, at {}: try again later, or wait with --within TIME",
                locks.store()
            )
        }
        Patience::Within(limit) => format!(
            "{key}: not free within {limit:?}, held by {held_by}{}, at {}: try again later, or wait longer",
            place.map_or_else(String::new, |place| format!(", place {place} in the queue")),
            locks.store()
        ),
        Patience::Beside => format!(
            "{key}: not granted at once, at {}, and a wait might be for the run around this one, which holds it too: try \
             again later, or wait with --within TIME",
            locks.store()
        ),
        // Such a wait is only ended by a fault or a signal.
        Patience::Endless => error.to_string(),
    };
    let failure = Failure::new(request.busy, line);
    request.status.tell(Event::Busy {
        key,
        held_by: owner.as_deref(),
        waited_ms: millis(*waited),
        code: failure.code(),
    });
    if request.quiet { failure.silent() } else { failure }
}

/// Waits until nothing of a request is left. Returns the signal that interrupted the wait.
pub(crate) async fn undo(locks: &Locks, signals: &mut Signals) -> Option<Signal> {
    undo_within(UNDOING, locks, signals).await
}

async fn undo_within(limit: Duration, locks: &Locks, signals: &mut Signals) -> Option<Signal> {
    tokio::select! {
        // Leftovers that are not undone in time end with the lease, which is no longer renewed.
        _ = locks.close(limit) => None,
        signal = signals.next() => Some(signal),
    }
}

#[derive(Debug)]
pub(crate) enum ReleaseOutcome {
    Done,
    NotOurs(ReleaseError),
    /// The store did not confirm it; this is the message about that.
    Unconfirmed(String),
}

/// The time limit for the store once the command has ended, of the record that the job is done and of the
/// release together. The lease of a store that does not answer expires on its own.
#[derive(Debug)]
pub(crate) struct ReleaseLimit {
    began: Instant,
    lease_left: Duration,
    limit: Duration,
    announced: bool,
}

impl ReleaseLimit {
    const LIMIT: Duration = Duration::from_secs(3);
    /// After this time, people want to know what is being waited for.
    const SILENCE: Duration = Duration::from_secs(1);

    /// At the end of the lease, nothing is left to release.
    pub(crate) fn begin(guard: &Guard) -> Self {
        let (began, lease_left) = (Instant::now(), guard.remaining());
        let limit = lease_left.min(Self::LIMIT);
        Self { began, lease_left, limit, announced: false }
    }

    fn left(&self) -> Duration {
        self.limit.saturating_sub(self.began.elapsed())
    }

    /// The part for the record. A quarter is left to the release, which a server also answers while its
    /// replicas do not confirm the record: after a wait for them, and perhaps after one more, for a renewal.
    pub(crate) fn for_the_record(&self) -> Duration {
        self.limit * 3 / 4
    }

    /// The result within this time from the beginning, unless a signal comes.
    pub(crate) async fn hear<T>(
        &mut self,
        what: &str,
        limit: Duration,
        request: &LockRequest,
        signals: &mut Signals,
        answer: impl Future<Output = T>,
    ) -> Option<T> {
        let mut answer = pin!(answer);
        loop {
            let until = if self.announced { limit } else { limit.min(Self::SILENCE) };
            tokio::select! {
                biased;
                answer = &mut answer => return Some(answer),
                _ = signals.next() => return None,
                () = sleep(until.saturating_sub(self.began.elapsed())) => {}
            }
            let (store, left) = (&request.place.store, self.left());
            if self.began.elapsed() >= limit {
                return None;
            }
            self.announced = true;
            say::line(format_args!(
                "{}: {store} has not confirmed {what}: trying for {left:.0?} more",
                request.keys
            ));
        }
    }
}

/// Releases the lock, and leaves nothing if the store answers in time.
pub(crate) async fn give_back(
    request: &LockRequest,
    locks: &Locks,
    mut last: ReleaseLimit,
    guard: Guard,
    signals: &mut Signals,
) -> ReleaseOutcome {
    let keys = &request.keys;
    match last.hear("the release", last.limit, request, signals, guard.release()).await {
        Some(Ok(_)) => {
            request.status.tell(Event::Released);
            undo_within(last.left(), locks, signals).await;
            ReleaseOutcome::Done
        }
        // Any leftovers in the store are being released.
        Some(Err(
            error @ (ReleaseError::Expired { .. }
            | ReleaseError::Broken { .. }
            | ReleaseError::TakenByOther { .. }),
        )) => {
            undo_within(UNDOING_THE_LOST, locks, signals).await;
            ReleaseOutcome::NotOurs(error)
        }
        // In a file, what could not be released ends with this process.
        Some(Err(ReleaseError::Unreachable(_)))
            if request.place.store.is_a_file() && !locks.lifelines().is_empty() =>
        {
            ReleaseOutcome::Done
        }
        Some(Err(error)) => {
            ReleaseOutcome::Unconfirmed(format!("{keys}: {error}: others must wait for that"))
        }
        None if last.began.elapsed() >= last.lease_left => ReleaseOutcome::Done,
        None => ReleaseOutcome::Unconfirmed(format!(
            "{keys}: {} did not confirm the release: others may have to wait for the lease's end",
            locks.store()
        )),
    }
}

/// One call to a slow store: what was lost expires soon after.
const UNDOING_THE_LOST: Duration = Duration::from_secs(1);
