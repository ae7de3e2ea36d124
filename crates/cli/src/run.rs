//! `leasehold run`: take the lock, run the command, keep the lease, release it.

use std::time::{Duration, Instant};

use leasehold::{ConnectError, Guard, LockError, Locks, ReleaseError};
use rustix::process::Signal;
use tokio::time::timeout;

use crate::command::{Command, end_as, status_of};
use crate::environment::{self, Around};
use crate::exit::{End, Failure};
use crate::say;
use crate::settings::{Origin, Patience, Settings};
use crate::signals::Signals;
use crate::watch::{Doom, Ended, watch};

/// Runs the command under the lock, and says how to end.
///
/// # Errors
///
/// [`Failure`], when the command did not run.
pub(crate) async fn run(settings: Settings) -> Result<End, Failure> {
    let around = Around::at(&settings.store);
    around.check(&settings.key)?;
    let mut signals = Signals::catch()?;
    let (locks, guard) = match take(&settings, &mut signals).await? {
        Taken::Lock(locks, guard) => (locks, guard),
        // Nobody asked us to end in good order once there is nothing to end.
        Taken::Interrupted(signal) => return Ok(End::Signal(signal.as_raw())),
    };
    if settings.verbose {
        say::line(format_args!("{}: taken at {}, fence {}", settings.key, locks.store(), guard.fence()));
    }
    let held = guard.held();
    let told =
        environment::of_command(&settings.key, &around, guard.fence(), &settings.label, &settings.store);
    let started = Command::start(&settings, told, held.remaining(), &signals);
    let outcome = match started {
        Ok(mut command) => watch(&mut command, &held, &mut signals).await,
        Err(failure) => {
            give_back(&settings, &locks, guard, &mut signals).await;
            return Err(failure);
        }
    };
    let Ended { outcome, doom } = outcome;
    let returned = give_back(&settings, &locks, guard, &mut signals).await;
    if let Some(doom) = doom {
        return Err(ended_for(&settings, doom));
    }
    let outcome = outcome.expect("what is not known of the command is a doom");
    let status = status_of(&settings, outcome)?;
    match returned {
        Return::Done => Ok(end_as(status)),
        Return::NotOurs(error) => Err(ran_past(&error)),
        Return::Unconfirmed(line) => {
            say::line(line);
            Ok(end_as(status))
        }
    }
}

enum Taken {
    Lock(Locks, Guard),
    Interrupted(Signal),
}

/// How long what a request may have left behind is given to be undone. A store that answers needs milliseconds.
const UNDOING: Duration = Duration::from_secs(3);

async fn take(settings: &Settings, signals: &mut Signals) -> Result<Taken, Failure> {
    let started = Instant::now();
    if settings.verbose {
        say::line(format_args!("{}: waiting at {}", settings.key, settings.store));
    }
    let locks = tokio::select! {
        biased;
        signal = signals.next() => return Ok(Taken::Interrupted(signal)),
        locks = connect(settings) => locks?,
    };
    let mutex = locks.mutex(settings.key.as_bytes());
    let request = match settings.patience {
        Patience::Endless => mutex.lock(),
        Patience::OneTry => mutex.lock().within(Duration::ZERO),
        // Connecting is part of the wait. If it took all of it, one try is left.
        Patience::Within(within) => mutex.lock().within(within.saturating_sub(started.elapsed())),
    };
    let outcome = tokio::select! {
        biased;
        signal = signals.next() => Err(signal),
        // Dropped when the signal comes first, and so given up.
        outcome = request.into_future() => Ok(outcome),
    };
    match outcome {
        Ok(Ok(guard)) => Ok(Taken::Lock(locks, guard)),
        Ok(Err(error)) => {
            undo(&locks, signals).await;
            Err(not_taken(settings, &locks, error))
        }
        Err(signal) => {
            let signal = undo(&locks, signals).await.unwrap_or(signal);
            Ok(Taken::Interrupted(signal))
        }
    }
}

async fn connect(settings: &Settings) -> Result<Locks, Failure> {
    let builder = Locks::builder().ttl(settings.ttl.duration()).label(&settings.label);
    let builder = match settings.patience {
        // Whoever waits two seconds for a lock does not want to wait ten for a server; a second is enough for one that is up.
        Patience::Within(within) => builder.outage_limit(within.clamp(Duration::from_secs(1), OUTAGE_LIMIT)),
        _ => builder.outage_limit(OUTAGE_LIMIT),
    };
    let locks = match builder.connect(settings.store.reveal()).await {
        Ok(locks) => locks,
        Err(error) => return Err(not_connected(settings, error)),
    };
    if settings.store_from == Origin::Argument && settings.store.has_password() && !settings.quiet {
        say::line(format_args!(
            "every user of this machine can see the password in --store (ps): put the URL into {} instead",
            environment::STORE
        ));
    }
    Ok(locks)
}

/// How long a store may be silent: the library's own default, said here because a short wait shortens it.
const OUTAGE_LIMIT: Duration = Duration::from_secs(10);

fn not_connected(settings: &Settings, error: ConnectError) -> Failure {
    match error {
        ConnectError::Misuse(misuse) => Failure::from(misuse).about(settings.store_from),
        ConnectError::Refused(_)
            if settings.store_from == Origin::Environment && environment::is_nested() =>
        {
            Failure::from(error).hint(format!(
                "the run around this one took the password out of {}: give this one its own",
                environment::STORE
            ))
        }
        // Nobody chose this place, so whoever reads this may not know that there are others.
        ConnectError::Refused(_) if settings.store_from == Origin::Nobody => {
            Failure::from(error).hint(format!("name another store with --store or {}", environment::STORE))
        }
        _ => Failure::from(error),
    }
}

fn not_taken(settings: &Settings, locks: &Locks, error: LockError) -> Failure {
    let LockError::TimedOut { key, held_by, waited, .. } = &error else { return Failure::from(error) };
    let held_by = held_by.as_ref().map_or_else(|| "others".into(), ToString::to_string);
    let line = match settings.patience {
        Patience::OneTry => {
            format!(
                "{key}: held by {held_by}, at {}: try again later, or wait with --within TIME",
                locks.store()
            )
        }
        _ => format!(
            "{key}: not free within {:.1} s, held by {held_by}, at {}: try again later, or wait longer",
            waited.as_secs_f64(),
            locks.store()
        ),
    };
    let failure = Failure::new(End::BUSY, line);
    if settings.quiet { failure.silent() } else { failure }
}

/// Waits until nothing of a request is left. Gives back the signal that cut that short.
async fn undo(locks: &Locks, signals: &mut Signals) -> Option<Signal> {
    tokio::select! {
        // What is not undone in time ends with the lease that nobody renews.
        _ = locks.close(UNDOING) => None,
        signal = signals.next() => Some(signal),
    }
}

/// What became of the lock when the command had ended.
enum Return {
    Done,
    /// It had been lost before.
    NotOurs(ReleaseError),
    /// The store did not say, and this is what to say of it.
    Unconfirmed(String),
}

/// Releases the lock, for no longer than its lease lasts, and leaves nothing.
async fn give_back(settings: &Settings, locks: &Locks, guard: Guard, signals: &mut Signals) -> Return {
    let key = &settings.key;
    let left = guard.remaining();
    let released = tokio::select! {
        released = timeout(left, guard.release()) => released.ok(),
        _ = signals.next() => None,
    };
    match released {
        Some(Ok(())) => {
            undo_for(locks, left, signals).await;
            Return::Done
        }
        // What the store may still have of it for a moment is being taken back.
        Some(Err(error @ (ReleaseError::Expired { .. } | ReleaseError::TakenByOther { .. }))) => {
            undo_for(locks, Duration::ZERO, signals).await;
            Return::NotOurs(error)
        }
        Some(Err(error)) => Return::Unconfirmed(format!("{key}: {error}: others must wait for that")),
        None => Return::Unconfirmed(format!(
            "{key}: {} did not confirm the release: others may have to wait for the lease's end",
            locks.store()
        )),
    }
}

async fn undo_for(locks: &Locks, within: Duration, signals: &mut Signals) {
    tokio::select! {
        _ = locks.close(within.min(UNDOING)) => {}
        _ = signals.next() => {}
    }
}

fn ran_past(error: &ReleaseError) -> Failure {
    Failure::new(
        End::LOST,
        format!("{error}: the command ran past its lease and may not have been alone: check what it did"),
    )
}

fn ended_for(settings: &Settings, doom: Doom) -> Failure {
    let why = match doom {
        Doom::Lost(loss) => loss.to_string(),
        Doom::Foreseen => format!("it could not be renewed in time at {}", settings.store),
        Doom::Stopped => "it was not renewed while this run was stopped".into(),
        Doom::Unminded => {
            return Failure::new(
                End::LOST,
                format!(
                    "{}: the minder of the command was killed, and so all of the command: check what it did, and run it again",
                    settings.key
                ),
            );
        }
    };
    Failure::new(
        End::LOST,
        format!(
            "{}: lease lost, so the command was ended: {why}: check what it did, and run it again",
            settings.key
        ),
    )
}
