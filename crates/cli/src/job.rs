//! `leasehold once` and `leasehold every`: run the command if it is due, and mark it as done.

use std::ffi::OsString;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use clap::Args;
use leasehold::{BeginError, JobGuard, Label, Locks, Mark, MarkError, Misuse, NotDue};

use crate::args::{AcquireArgs, JobArgs, WaitingArgs};
use crate::command::end_as;
use crate::exit::{End, Failure};
use crate::json::{millis, millis_of};
use crate::lock_request::LockRequest;
use crate::mark::begun;
use crate::options::{exit_code, time_of};
use crate::run::{ready, work};
use crate::settings::Settings;
use crate::signals::Signals;
use crate::status::{Event, LastRun};
use crate::take::{
    FOR_EVER, ReleaseLimit, ReleaseOutcome, give_back, had, not_taken, reach, undo, unless_told_to_end, with,
};
use crate::waiting::WaitReporter;
use crate::{say, time};

/// Run a command once, ever, whichever machine starts it
///
/// If COMMAND has already been run successfully under this name, nothing is run, and the exit code
/// is 0. If somebody is running it, this waits, and then either finds it done or runs it. It counts
/// as done when COMMAND has ended with 0 and the store has recorded that. If COMMAND fails or dies,
/// or its lease is lost, it is left to the next run.
///
/// So exit code 0 means that it is done, now or earlier. After a crash between the end of COMMAND
/// and the record, the next run runs it again: COMMAND must be harmless when run twice.
#[derive(Args, Debug)]
#[command(
    override_usage = "leasehold once [OPTIONS] KEY -- COMMAND [ARG]...",
    after_help = "TIME: seconds, or 500ms, 30s, 2m, 1h30m. Exit codes: `leasehold help exit-codes`.",
    after_long_help = ONCE_EXAMPLE
)]
pub(crate) struct OnceArgs {
    #[command(flatten)]
    pub(crate) waiting: WaitingArgs,

    /// The name of the job, which is also the name of its lock
    #[arg(value_name = "KEY", num_args = 0..)]
    pub(crate) keys: Vec<OsString>,

    #[command(flatten)]
    pub(crate) job: JobArgs,
}

const ONCE_EXAMPLE: &str = "\
TIME is a number of seconds, or numbers with units: 500ms, 30s, 2m, 1h30m.

The exit code is COMMAND's; 0 if it was done before; 75 if somebody is running it and --within has passed: `leasehold help exit-codes`.

Example: each of many machines runs this before it starts its service, and one of them migrates the database:
  leasehold once migrate:0042 -- ./migrate 0042";

/// Run a command once in each period, whichever machine starts it
///
/// COMMAND is due if it was never done, or if PERIOD has passed since it last began, by the store's
/// clock. If it is not due, or somebody is running it, nothing is run, and the exit code is 0. This
/// never waits, so a scheduler on each of many machines can start it as often as it likes. If
/// COMMAND fails or dies, or its lease is lost, it stays due.
///
/// PERIOD is from 1s to a hundred years. It corresponds to ShedLock's lockAtLeastFor, and
/// --max-hold to lockAtMostFor.
#[derive(Args, Debug)]
#[command(
    override_usage = "leasehold every [OPTIONS] PERIOD KEY -- COMMAND [ARG]...",
    after_help = "PERIOD and TIME: seconds, or 500ms, 30s, 2m, 1h30m, 7d. Exit codes: `leasehold help exit-codes`.",
    after_long_help = EVERY_EXAMPLE
)]
pub(crate) struct EveryArgs {
    /// The time from one start until it is due again, and the name of the job, which is also that
    /// of its lock
    #[arg(value_names = ["PERIOD", "KEY"], num_args = 0..)]
    pub(crate) words: Vec<OsString>,

    #[command(flatten)]
    pub(crate) job: JobArgs,

    /// Run COMMAND even if it is not due, unless somebody is running it; the next period begins now
    #[arg(long)]
    pub(crate) now: bool,
}

const EVERY_EXAMPLE: &str = "\
PERIOD and TIME are a number of seconds, or numbers with units: 500ms, 30s, 2m, 1h30m, 7d.

The exit code is COMMAND's; 0 if it was not due: `leasehold help exit-codes`.

Make the period a little shorter than the scheduler's, so that a start that is some seconds early is not skipped.

Example: in the crontab of many machines, run on one of them each night:
  leasehold every 23h nightly -- ./report";

#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) settings: Settings,
    pub(crate) when: Schedule,
    pub(crate) skipped: u8,
}

impl Job {
    pub(crate) fn once(args: OnceArgs) -> Result<Self, Failure> {
        Self::new(Schedule::Once, args.job, args.waiting, args.keys)
    }

    pub(crate) fn every(args: EveryArgs) -> Result<Self, Failure> {
        let mut words = args.words.into_iter();
        let period = words.next().unwrap_or_default();
        let period = time_of("PERIOD", Some(period.to_string_lossy().into_owned()))?.unwrap_or_default();
        if period < Mark::LEAST_PERIOD || period > Mark::FOR_EVER {
            return Err(Failure::from(Misuse::PeriodOutOfRange { period }));
        }
        // It never waits for the lock.
        let waiting = WaitingArgs { one_try: true, within: None, busy_exit_code: None };
        let when = Schedule::Every { period, now: args.now };
        Self::new(when, args.job, waiting, words.collect())
    }

    fn new(when: Schedule, job: JobArgs, waiting: WaitingArgs, keys: Vec<OsString>) -> Result<Self, Failure> {
        let skipped = exit_code("--skip-exit-code", job.skip_exit_code)?.unwrap_or(0);
        let JobArgs { lease, quiet, running, .. } = job;
        let acquire = AcquireArgs { waiting, shared: false, permits: None, lease, quiet, keys };
        let settings = Settings::of(acquire, running)?;
        Ok(Self { settings, when, skipped })
    }
}

pub(crate) async fn perform(job: Job) -> Result<End, Failure> {
    let request = &job.settings.request;
    let around = ready(&job.settings)?;
    around.patience(request)?;
    let mut signals = Signals::catch()?;
    let started = Instant::now();
    let locks = reach(request, &mut signals).await?;
    // A single store has answered by now, so without a limit of the user's it is waited for without
    // one; of several stores, perhaps none has answered yet.
    let patient = request.outage_limit().is_none() && !request.place.store.is_several();
    let locks = if patient { locks.with_outage_limit(FOR_EVER) } else { locks };
    let outage_limit = (!patient).then(|| request.first_outage_limit());
    let telling = WaitReporter::of(request, &locks, started, outage_limit);
    let beginning = async {
        let begun = with(telling, begin(&job, &locks, started)).await?;
        if let Ok(job_guard) = &begun {
            had(request, &locks, job_guard.guard(), started.elapsed()).await;
        }
        Ok(begun)
    };
    let job_guard = match unless_told_to_end(&locks, &mut signals, beginning).await? {
        Ok(Ok(job_guard)) => job_guard,
        Ok(Err(skip)) => {
            undo(&locks, &mut signals).await;
            tell_skipped(request, job.when, job.skipped, &skip);
            return Ok(End::Code(job.skipped));
        }
        Err(error) => {
            undo(&locks, &mut signals).await;
            return Err(not_begun(request, &locks, error));
        }
    };
    let worked = work(&job.settings, &around, &locks, job_guard.guard(), &mut signals).await;
    let done = worked.as_ref().is_ok_and(ExitStatus::success);
    let mut last = ReleaseLimit::begin(job_guard.guard());
    let marked = if done { mark(&job, &job_guard, &mut signals, &mut last).await } else { Ok(()) };
    // A mark stays, whatever happens to the lock afterwards; a failed job is left to the next
    // process in any case.
    let returned = give_back(request, &locks, last, job_guard.into_guard(), &mut signals).await;
    if let ReleaseOutcome::Unconfirmed(line) = returned {
        say::line(line);
    }
    let status = worked?;
    marked?;
    Ok(end_as(status))
}

async fn begin(job: &Job, locks: &Locks, started: Instant) -> Result<Result<JobGuard, Skip>, BeginError> {
    let request = &job.settings.request;
    let key = request.keys.first().as_bytes();
    match job.when {
        Schedule::Once => {
            let mut once = locks.once(key);
            if let Some(within) = request.patience.left(started) {
                once = once.within(within);
            }
            Ok(once.begin().await?.map_err(Skip::Done))
        }
        Schedule::Every { period, now } => {
            let every = locks.every(period, key);
            let every = if now { every.now() } else { every };
            Ok(every.begin().await?.map_err(Skip::NotDue))
        }
    }
}

async fn mark(
    job: &Job,
    job_guard: &JobGuard,
    signals: &mut Signals,
    last: &mut ReleaseLimit,
) -> Result<(), Failure> {
    let request = &job.settings.request;
    let (keys, store) = (&request.keys, &request.place.store);
    let again = "so it will be run again";
    let (what, limit) = ("that it recorded that the job is done", last.for_the_record());
    let Some(marked) = last.hear(what, limit, request, signals, job_guard.mark()).await else {
        return Err(Failure::unreachable(format_args!(
            "{keys}: done, but {store} did not confirm that it recorded that, so it may be run again"
        )));
    };
    match marked {
        Ok(mark) => {
            request
                .status
                .tell(Event::Done { begun_at: millis_of(mark.at), due_at: due_at(&mark, job.when) });
            Ok(())
        }
        Err(MarkError::Lost(loss)) => Err(Failure::new(
            End::LOST,
            format!(
                "{keys}: done, but the lease was lost before that was recorded ({}), {again}: check what it did",
                keys.why(&loss)
            ),
        )),
        Err(MarkError::Unreachable(fault)) => {
            let again = if fault.is_lasting() { again } else { "so it may be run again" };
            let what = format_args!("{keys}: done, but that could not be recorded ({fault}), {again}");
            Err(Failure::unserved(what, Some(&fault)))
        }
        Err(error) => Err(Failure::refused(format_args!("{keys}: {error}"))),
    }
}

fn not_begun(request: &LockRequest, locks: &Locks, error: BeginError) -> Failure {
    match error {
        BeginError::NotTaken(error) => not_taken(request, locks, error),
        BeginError::NotKnown(error) => {
            Failure::from(error).about(format_args!("{}: not known whether it was done", request.keys))
        }
        _ => Failure::refused(format_args!("{}: {error}", request.keys)),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Schedule {
    Once,
    Every { period: Duration, now: bool },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Skip {
    Done(Mark),
    NotDue(NotDue),
}

/// Reports why nothing was run: to people at a terminal or with `-v`, and to programs.
pub(crate) fn tell_skipped(request: &LockRequest, when: Schedule, code: u8, skip: &Skip) {
    let holder;
    let (said, event) = match skip {
        Skip::Done(mark) => {
            let event = Event::AlreadyDone { last: last_run(Some(mark)), code };
            (format!("already done, begun {}", begun(mark)), event)
        }
        Skip::NotDue(NotDue::Until { left, mark }) => {
            let due_at = due_at(mark, when);
            let (due, left) = (due_at.map(time::moment).unwrap_or_default(), time::shown(*left));
            let said = format!("not due until {due}, in {left}, as it was last begun {}", begun(mark));
            (said, Event::NotDue { due_at, last: last_run(Some(mark)), code })
        }
        Skip::NotDue(NotDue::Underway { held_by, mark }) => {
            let by = held_by.as_ref().map_or_else(|| "others".into(), ToString::to_string);
            holder = held_by.as_ref().map(|held_by| held_by.owner.to_string());
            let event = Event::Underway { held_by: holder.as_deref(), last: last_run(mark.as_ref()), code };
            (format!("just being done, by {by}"), event)
        }
    };
    if request.is_aloud() {
        say::line(format_args!("{}: {said}: not run", request.keys));
    }
    request.status.tell(event);
}

fn last_run(mark: Option<&Mark>) -> LastRun<'_> {
    LastRun {
        begun_at: mark.map(|mark| millis_of(mark.at)),
        by: mark.and_then(|mark| mark.label.as_ref()).map(Label::as_str),
        fence: mark.map(|mark| mark.fence.get()),
    }
}

/// When it is due again: milliseconds since 1970, by the store's clock.
pub(crate) fn due_at(mark: &Mark, when: Schedule) -> Option<u64> {
    let Schedule::Every { period, .. } = when else { return None };
    Some(millis_of(mark.at).saturating_add(millis(period)))
}
