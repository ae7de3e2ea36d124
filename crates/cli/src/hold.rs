//! `leasehold hold`: take the lock, print its fence, and hold it until whoever reads that is gone.

use std::future::pending;
use std::io::{self, IsTerminal as _, Write as _};
use std::thread;

use leasehold::Loss;
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::stdio::dup2_stdout;
use tokio::sync::oneshot;

use crate::environment::Around;
use crate::exit::{End, Failure};
use crate::say;
use crate::signals::Signals;
use crate::take::{LastWords, Return, Taken, give_back, take, tell_keeping};
use crate::wanted::Wanted;

/// Holds the lock, and says how to end.
///
/// # Errors
///
/// [`Failure`], when the lock was not had, or was lost.
pub(crate) async fn hold(wanted: Wanted) -> Result<End, Failure> {
    Around::at(&wanted.place.store).check(&wanted.keys)?;
    let mut signals = Signals::catch()?;
    let (locks, guard) = match take(&wanted, &mut signals).await? {
        Taken::Lock(locks, guard) => (locks, guard),
        Taken::Interrupted(signal) => return Ok(End::Signal(signal.as_raw())),
    };
    // Without a reader from the start, the write fails, and the lock is given back at once.
    let printed = writeln!(io::stdout(), "{}", guard.fence()).and_then(|()| io::stdout().flush());
    if printed.is_ok() && io::stdout().is_terminal() && !wanted.quiet {
        say::line(format_args!("{}: held until Ctrl-C", wanted.keys));
    }
    let end = match printed {
        Ok(()) => tokio::select! {
            biased;
            loss = guard.lost() => Err(loss),
            signal = signals.next() => Ok(End::Signal(signal.as_raw())),
            () = reader_is_gone() => Ok(End::SUCCESS),
            never = tell_keeping(wanted.status.clone(), guard.held()) => match never {},
        },
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(End::SUCCESS),
        Err(error) => {
            give_back(&wanted, &locks, LastWords::begin(&guard), guard, &mut signals).await;
            return Err(Failure::new(End::CANNOT_EXECUTE, format!("the fence cannot be printed: {error}")));
        }
    };
    match end {
        Ok(end) => match give_back(&wanted, &locks, LastWords::begin(&guard), guard, &mut signals).await {
            Return::Done => Ok(end),
            Return::NotOurs(error) => Err(Failure::new(
                End::LOST,
                format!("{error}: whoever relied on it may not have been alone: check what was done"),
            )),
            Return::Unconfirmed(line) => {
                say::line(line);
                Ok(end)
            }
        },
        Err(loss) => {
            // The reader must know now, whatever the store is up to.
            close_stdout();
            let failure = lost(&wanted, &loss);
            wanted.status.tell_lost(failure.reason());
            give_back(&wanted, &locks, LastWords::begin(&guard), guard, &mut signals).await;
            Err(failure)
        }
    }
}

/// Closes what our starter had open, but for the standard streams and the descriptor for events. Another hold of the same script
/// would otherwise not see its pipe closed as long as we have it, too.
pub(crate) fn close_inherited(status_fd: Option<&str>) {
    let open = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let open: Vec<_> = open.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok()).collect();
    let kept = status_fd.and_then(|number| number.parse().ok());
    for number in open.into_iter().filter(|number| *number > 2 && Some(*number) != kept) {
        // Fails for the one by which we looked.
        let _ = nix::unistd::close(number);
    }
}

/// Resolves when nobody can read our stdout any more. Never for a file, which has no reader.
async fn reader_is_gone() {
    let (gone, told) = oneshot::channel();
    // A thread of its own: the runtime's event queue takes a descriptor that is not its own by unsafe code only.
    let watcher = thread::Builder::new().name("reader".into()).spawn(move || {
        if wait_for_reader_to_go().is_ok() {
            let _ = gone.send(());
        }
    });
    if watcher.is_err() || told.await.is_err() {
        pending::<()>().await;
    }
}

/// By an event queue and not by poll(2), which would keep the pipe open for as long as it waits, although we close it.
fn wait_for_reader_to_go() -> rustix::io::Result<()> {
    let queue = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    // Errors and hang-ups are told in any case, and nothing else is of interest.
    epoll::add(&queue, io::stdout(), epoll::EventData::new_u64(0), epoll::EventFlags::empty())?;
    let mut events = [epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) }];
    loop {
        match epoll::wait(&queue, &mut events[..], None) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

fn close_stdout() {
    if let Ok(nowhere) = std::fs::File::options().write(true).open("/dev/null") {
        let _ = dup2_stdout(nowhere);
    }
}

fn lost(wanted: &Wanted, loss: &Loss) -> Failure {
    let keys = &wanted.keys;
    let line = match loss {
        Loss::HeldTooLong { at_most } => {
            format!(
                "{keys}: held for as long as --max-hold {at_most:?} allows: see why it takes so long, or allow more"
            )
        }
        _ => format!("{keys}: lease lost: {loss}: check what was done since, and do it again"),
    };
    Failure::new(End::LOST, line)
}
