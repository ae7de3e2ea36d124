//! `leasehold once` and `leasehold every`: run the command if it is due, and mark it as done.

use std::ffi::OsString;
use std::process::ExitStatus;
use std::time::Instant;

use leasehold::{BeginError, JobGuard, Locks, Mark, MarkError, Misuse, Mode, NotDue};

use crate::args::{EveryArgs, JobArgs, OnceArgs, WaitingArgs};
use crate::command::end_as;
use crate::environment::OuterLocks;
use crate::exit::{End, Failure};
use crate::json::millis_of;
use crate::lock_request::LockRequest;
use crate::options::{exit_code, time_of};
use crate::run::work;
use crate::say;
use crate::settings::{Settings, program_of};
use crate::signals::Signals;
use crate::skip::{Schedule, Skip, due_at, tell_skipped};
use crate::status::Event;
use crate::take::{
    FOR_EVER, ReleaseLimit, ReleaseOutcome, give_back, had, not_taken, reach, undo, unless_told_to_end, with,
};
use crate::waiting::WaitReporter;

/// A job with all settings validated.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) settings: Settings,
    pub(crate) when: Schedule,
    /// The exit code if there is nothing to do.
    pub(crate) skipped: u8,
}

impl Job {
    /// Validates the arguments of `once`, before anything is opened.
    pub(crate) fn once(args: OnceArgs) -> Result<Self, Failure> {
        Self::new(Schedule::Once, args.job, args.waiting, args.keys, args.command)
    }

    /// Validates the arguments of `every`, before anything is opened.
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
        Self::new(when, args.job, waiting, words.collect(), args.command)
    }

    fn new(
        when: Schedule,
        job: JobArgs,
        waiting: WaitingArgs,
        keys: Vec<OsString>,
        command: Vec<OsString>,
    ) -> Result<Self, Failure> {
        let skipped = exit_code("--skip-exit-code", job.skip_exit_code)?.unwrap_or(0);
        let program = program_of(&command);
        let request = LockRequest::in_mode(Mode::Exclusive, waiting, job.lease, job.quiet, keys, program)?;
        let settings = Settings::settled(request, job.running, command)?;
        Ok(Self { settings, when, skipped })
    }
}

/// Does the job if it is due, and returns the exit code.
pub(crate) async fn perform(job: Job) -> Result<End, Failure> {
    let request = &job.settings.request;
    let around = OuterLocks::at(&request.place.store);
    around.check(&request.keys)?;
    let mut signals = Signals::catch()?;
    let started = Instant::now();
    let locks = reach(request, &mut signals).await?;
    // A single store has answered by now, so the job waits for it without a limit, unless the user
    // set one. Of several stores, perhaps none has answered yet.
    let patient = request.outage_limit().is_none() && !request.place.store.is_several();
    let locks = if patient { locks.with_outage_limit(FOR_EVER) } else { locks };
    let outage_limit = (!patient).then(|| request.first_outage_limit());
    let telling = WaitReporter::of(request, &locks, started, outage_limit);
    let beginning = with(telling, begin(&job, &locks, started));
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
    had(request, &locks, job_guard.guard(), started.elapsed()).await;
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

/// Finds out whether the job is ours to do.
async fn begin(job: &Job, locks: &Locks, started: Instant) -> Result<Result<JobGuard, Skip>, BeginError> {
    let request = &job.settings.request;
    let key = request.keys.first().as_bytes();
    match job.when {
        Schedule::Once => {
            let mut once = locks.once(key);
            if let Some(within) = request.patience.left(started) {
                once = once.within(within);
            }
            Ok(once.begin().await?.map_err(|mark| Skip::Done { mark }))
        }
        Schedule::Every { period, now } => {
            let every = locks.every(period, key);
            let every = if now { every.now() } else { every };
            Ok(every.begin().await?.map_err(|not_due| match not_due {
                NotDue::Until { left, mark } => Skip::Until { left, mark },
                NotDue::Underway { held_by, mark } => Skip::Underway { held_by, mark },
            }))
        }
    }
}

/// Marks the job as done, and reports that.
async fn mark(
    job: &Job,
    job_guard: &JobGuard,
    signals: &mut Signals,
    last: &mut ReleaseLimit,
) -> Result<(), Failure> {
    let request = &job.settings.request;
    let (keys, store) = (&request.keys, &request.place.store);
    let again = "so it will be run again";
    let Some(marked) = last.hear(request, signals, job_guard.mark()).await else {
        return Err(Failure::unreachable(format_args!(
            "{keys}: done, but {store} did not confirm that it noted that, so it may be run again"
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
                "{keys}: done, but the lease was lost before that was noted ({loss}), {again}: check what it did"
            ),
        )),
        Err(MarkError::Unreachable(fault)) => Err(Failure::unreachable(format_args!(
            "{keys}: done, but that could not be noted ({fault}), {again}"
        ))),
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
