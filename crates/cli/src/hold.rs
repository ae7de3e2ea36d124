//! `leasehold hold`: acquires the lock, prints its fence, and holds it until the reader of its
//! output is gone.

#[cfg_attr(target_os = "linux", path = "hold/linux.rs")]
#[cfg_attr(not(target_os = "linux"), path = "hold/bsd.rs")]
mod kernel;

use std::ffi::OsString;
use std::future::pending;
use std::io::{self, IsTerminal as _, Write as _};
use std::pin::pin;
use std::thread;

use clap::Args;
use leasehold::{Fence, Loss};
use rustix::stdio::dup2_stdout;
use tokio::sync::oneshot;

use crate::args::AcquireArgs;
use crate::exit::{End, Failure};
use crate::lock_request::LockRequest;
use crate::outer_locks::OuterLocks;
use crate::say;
use crate::signals::Signals;
use crate::take::{ReleaseLimit, ReleaseOutcome, give_back, take_unless, tell_keeping};

/// Hold a lock for a shell script, until the script ends
///
/// Waits for the lock, prints its fence on one line, and holds the lock until the reader of that
/// line closes its end of the pipe, which also happens when the reader ends. If the lease is lost,
/// the pipe is closed and the exit code is 70. A reader that ends earlier also ends the wait for the
/// lock. If stdout is a terminal or a file instead of a pipe, the lock is held until SIGINT, SIGTERM
/// or SIGHUP.
///
/// A script is not ended when its lock is lost: it has to check. `leasehold run` ends its command.
#[derive(Args, Debug)]
#[command(
    override_usage = "leasehold hold [OPTIONS] KEY...",
    after_help = "TIME: seconds, or 500ms, 30s, 2m, 1h30m. Exit codes: `leasehold help exit-codes`.",
    after_long_help = EXAMPLE,
    mut_arg("max_hold", |arg| arg.help(MAX_HOLD).long_help(MAX_HOLD_AND_TTL)),
    mut_arg("status_fd", |arg| arg.long_help(STATUS_FD))
)]
pub(crate) struct HoldArgs {
    #[command(flatten)]
    pub(crate) acquire: AcquireArgs,

    #[arg(value_name = "COMMAND", last = true, num_args = 0.., hide = true)]
    pub(crate) command: Vec<OsString>,
}

const MAX_HOLD: &str = "Release the lock after this time, and exit with 70";

const MAX_HOLD_AND_TTL: &str = "\
Release the lock after this time, and exit with 70

The pipe is closed, so the script can notice. The TTL is at most this.";

const STATUS_FD: &str = "\
Write events to this descriptor, as lines of JSON

3 or greater, opened for writing by the shell, as in `3>events`. `leasehold help events` lists the events.";

const EXAMPLE: &str = "\
TIME is a number of seconds, or numbers with units: 500ms, 30s, 2m, 1h30m.

Example: a bash script that holds the lock from here to its end, or to `exec 9<&-`:
  exec 9< <(leasehold hold deploy)
  read -r fence <&9 || exit 75";

pub(crate) async fn hold(mut request: LockRequest) -> Result<End, Failure> {
    request.patience = OuterLocks::at(&request.place.store).patience(&request)?;
    let mut signals = Signals::catch()?;
    let mut gone = pin!(reader_is_gone());
    // A script that has ended does not want the lock any more.
    let Ok((locks, guard)) = take_unless(&mut gone, &request, &mut signals).await? else {
        return Ok(End::SUCCESS);
    };
    let end = tokio::select! {
        biased;
        loss = guard.lost() => {
            // First, so that the reader learns this at once, even if the store does not answer.
            close_stdout();
            let failure = lost(&request, &loss);
            request.status.tell_lost(failure.reason());
            Err(failure)
        }
        signal = signals.next() => Ok(End::Signal(signal.as_raw())),
        read = serve_reader(&request, guard.fence(), gone) => match read {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(Failure::new(End::CANNOT_EXECUTE, format!("the fence cannot be printed: {error}")))
            }
            _ => Ok(End::SUCCESS),
        },
        never = tell_keeping(request.status.clone(), guard.held()) => match never {},
    };
    match give_back(&request, &locks, ReleaseLimit::begin(&guard), guard, &mut signals).await {
        ReleaseOutcome::NotOurs(error) if end.is_ok() => Err(Failure::new(
            End::LOST,
            format!("{error}: whoever relied on it may not have been alone: check what was done"),
        )),
        ReleaseOutcome::Unconfirmed(line) if end.is_ok() => {
            say::line(line);
            end
        }
        _ => end,
    }
}

/// Closes descriptors that our parent had open: otherwise, while we have its pipe open, another hold
/// of the same script would not see that it was closed. Not the standard streams, nor that for events.
pub(crate) fn close_inherited(status_fd: Option<&str>) {
    let open = std::fs::read_dir(kernel::DESCRIPTORS).into_iter().flatten().flatten();
    let open: Vec<_> = open.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok()).collect();
    let kept = status_fd.and_then(|number| number.parse().ok());
    for number in open.into_iter().filter(|number| *number > 2 && Some(*number) != kept) {
        // This fails for the descriptor with which the list was read.
        let _ = nix::unistd::close(number);
    }
}

/// Prints the fence, and resolves when its reader is `gone`. Without a reader, the write fails.
async fn serve_reader(request: &LockRequest, fence: Fence, gone: impl Future<Output = ()>) -> io::Result<()> {
    // A write to a full pipe would block our only thread, so that nobody renewed the lease. There is
    // always room in a file, which the kernel does not watch.
    let _ = in_thread(|| kernel::wait_for(kernel::ROOM)).await;
    writeln!(io::stdout(), "{fence}").and_then(|()| io::stdout().flush())?;
    if io::stdout().is_terminal() && !request.quiet {
        say::line(format_args!("{}: held until Ctrl-C", request.keys));
    }
    gone.await;
    Ok(())
}

/// Resolves when nobody can read our stdout any more; never for a file, which has no reader.
pub(crate) async fn reader_is_gone() {
    if in_thread(|| kernel::wait_for(kernel::READER_GONE)).await.is_none() {
        pending::<()>().await;
    }
}

/// Resolves when this wait for stdout has ended; with `None` if it is impossible. It takes a thread,
/// because the runtime's event queue accepts foreign descriptors only in unsafe code.
async fn in_thread(wait: fn() -> rustix::io::Result<()>) -> Option<()> {
    let (tell, told) = oneshot::channel();
    let waiter = thread::Builder::new().name("reader".into()).spawn(move || {
        if wait().is_ok() {
            let _ = tell.send(());
        }
    });
    waiter.ok()?;
    told.await.ok()
}

fn close_stdout() {
    if let Ok(nowhere) = std::fs::File::options().write(true).open("/dev/null") {
        let _ = dup2_stdout(nowhere);
    }
}

fn lost(request: &LockRequest, loss: &Loss) -> Failure {
    let keys = &request.keys;
    let line = match loss {
        Loss::HeldTooLong { at_most } => format!(
            "{keys}: held for as long as --max-hold {at_most:?} allows: see why it takes so long, or allow more"
        ),
        _ => format!("{keys}: lease lost: {}: check what was done since, and do it again", keys.why(loss)),
    };
    Failure::new(End::LOST, line)
}
