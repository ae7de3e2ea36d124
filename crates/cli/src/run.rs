//! `leasehold run`: acquires the lock, runs the command, renews the lease, releases it.

use std::convert::Infallible;
use std::future::pending;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use clap::Args;
use leasehold::{Event, Events, Fault, Guard, Locks};

use crate::args::{AcquireArgs, CommandArgs};
use crate::command::{Command, end_as, status_of};
use crate::exit::{End, Failure};
use crate::outer_locks::{self, OuterLocks};
use crate::say;
use crate::settings::Settings;
use crate::signals::Signals;
use crate::status;
use crate::supervisor::{self, Outcome};
use crate::take::{ReleaseLimit, ReleaseOutcome, give_back, take, tell_keeping};
use crate::watch::{EndReason, watch};

/// Run a command while holding a lock
///
/// Waits for the lock, runs COMMAND under it, releases it, and ends as COMMAND ended. Several keys
/// are acquired together or not at all. COMMAND and everything that it started never outlive the
/// lease: if it is lost, or if leasehold is killed or stopped, they are ended.
///
/// Exceptions: processes of another user (sudo) cannot be killed by leasehold; it names them, and
/// keeps the lock while it can renew it. If leasehold and its supervisor are killed with SIGKILL at
/// the same moment, COMMAND dies with them unless it is setuid, but processes that COMMAND started
/// may live on.
///
/// On macOS and FreeBSD, COMMAND always has its own process group, and only that group is ended,
/// not a process that leaves it. If the supervisor itself is killed there, COMMAND continues.
#[derive(Args, Debug)]
#[command(
    override_usage = "leasehold run [OPTIONS] KEY... -- COMMAND [ARG]...",
    after_help = "TIME: seconds, or 500ms, 30s, 2m, 1h30m. Exit codes: `leasehold help exit-codes`.",
    after_long_help = EXAMPLE
)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) acquire: AcquireArgs,

    #[command(flatten)]
    pub(crate) running: CommandArgs,
}

const EXAMPLE: &str = "\
TIME is a number of seconds, or numbers with units: 500ms, 30s, 2m, 1h30m.

The exit code is COMMAND's; 75 if the lock is held, 70 if the lease was lost: `leasehold help exit-codes`.

Example: wait up to half a minute for the others, then deploy:
  leasehold run --within 30s deploy -- ./deploy --all";

pub(crate) async fn run(mut settings: Settings) -> Result<End, Failure> {
    let around = ready(&settings)?;
    settings.request.patience = around.patience(&settings.request)?;
    let request = &settings.request;
    let mut signals = Signals::catch()?;
    let (locks, guard) = take(request, &mut signals).await?;
    let worked = work(&settings, &around, &locks, &guard, &mut signals).await;
    let returned = give_back(request, &locks, ReleaseLimit::begin(&guard), guard, &mut signals).await;
    if let ReleaseOutcome::Unconfirmed(line) = &returned {
        say::line(line);
    }
    let status = worked?;
    match returned {
        ReleaseOutcome::NotOurs(error) => Err(Failure::new(
            End::LOST,
            format!("{error}: the command may have run past its lease, and not alone: check what it did"),
        )),
        ReleaseOutcome::Done | ReleaseOutcome::Unconfirmed(_) => Ok(end_as(status)),
    }
}

/// The locks around us. Refuses what could not be run, before anything is sent.
pub(crate) fn ready(settings: &Settings) -> Result<OuterLocks, Failure> {
    supervisor::check()?;
    let around = OuterLocks::at(&settings.request.place.store);
    around.leave_room_for(&settings.request)?;
    Ok(around)
}

/// Runs the command under a held lock, and reports how it ended.
pub(crate) async fn work(
    settings: &Settings,
    around: &OuterLocks,
    locks: &Locks,
    guard: &Guard,
    signals: &mut Signals,
) -> Result<ExitStatus, Failure> {
    let request = &settings.request;
    let held = guard.held();
    let told = outer_locks::of_command(request, around, guard.fence());
    let mut fault = None;
    let events = locks.events();
    let mut command = Command::start(settings, told, &held, locks, signals)?;
    let (outcome, doom) = tokio::select! {
        never = tell_keeping(request.status.clone(), held.clone()) => match never {},
        never = note_fault(events, &mut fault) => match never {},
        ended = watch(&mut command, &held, signals, settings.max_hold) => ended,
    };
    if command.left > 0 && request.verbose {
        let (count, keys) = (command.left, &request.keys);
        let run = if count == 1 {
            "process of the command still runs"
        } else {
            "processes of the command still run"
        };
        say::line(format_args!(
            "{keys}: {count} {run}, without the lock: --wait-for-all keeps the lock until all have ended"
        ));
    }
    let began = !matches!(outcome, Some(Outcome::NotStarted(_)));
    let doomed = doom.map(|doom| ended_for(settings, doom, fault, began));
    // To programs, unless that was reported already.
    if let Some(failure) = &doomed {
        request.status.tell_lost(failure.reason());
    }
    if let Some(Outcome::Ended(how)) = outcome {
        request.status.tell(status::Event::Ended(end_as(ExitStatus::from_raw(how))));
    }
    match doomed {
        Some(failure) => Err(failure),
        None => status_of(settings, outcome.expect("what is not known of the command is a doom")),
    }
}

/// Keeps the store's fault for as long as there is one. Never resolves.
async fn note_fault(mut events: Events, fault: &mut Option<Fault>) -> Infallible {
    loop {
        match events.next().await {
            Some(Event::StoreFault { fault: last, .. }) => *fault = Some(last),
            Some(Event::StoreBack { .. }) => *fault = None,
            Some(_) => {}
            None => return pending().await,
        }
    }
}

fn ended_for(settings: &Settings, doom: EndReason, fault: Option<Fault>, began: bool) -> Failure {
    const REMEDY: &str = "check what it did, and run it again";
    let request = &settings.request;
    let lost = |why: &str| {
        if began {
            format!("lease lost, so the command was ended: {why}: {REMEDY}")
        } else {
            format!("lease lost, so the command was not run: {why}: run it again")
        }
    };
    let why = match doom {
        EndReason::HeldTooLong(max_hold) => format!(
            "held for as long as --max-hold {max_hold:?} allows, so the command was ended: see why it takes so long, or \
             allow more"
        ),
        EndReason::Unminded => {
            format!("the supervisor of the command was killed, and so all of the command: {REMEDY}")
        }
        EndReason::Lost(loss) => lost(&request.keys.why(&loss)),
        EndReason::Foreseen => lost(&match fault {
            Some(fault) => format!("it could not be renewed in time: {fault}"),
            None => format!("it could not be renewed in time at {}", request.place.store),
        }),
        EndReason::Stopped => lost("it was not renewed while this run was stopped"),
    };
    Failure::new(End::LOST, format!("{}: {why}", request.keys))
}
