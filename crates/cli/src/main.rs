//! The `leasehold` command: runs a command while holding a lock.

mod args;
mod bench;
mod breaking;
mod command;
mod command_line;
mod cut;
mod doctor;
mod environment;
mod exit;
mod follow;
mod forget;
#[cfg(test)]
mod fuzzed;
mod help;
mod hold;
mod init;
mod job;
mod json;
mod keys;
mod label;
mod lock_json;
mod lock_request;
mod ls;
mod mark;
mod metrics;
mod options;
mod outer_locks;
mod pages;
mod print;
mod run;
mod say;
mod settings;
mod show;
mod signals;
mod status;
mod store_location;
mod store_url;
mod stores;
mod supervisor;
mod table;
mod take;
mod terminal;
mod time;
mod top;
mod usage;
mod waiting;
mod watch;

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use clap::CommandFactory as _;
use tokio::runtime::Runtime;

use crate::command_line::{CommandLine, Task};
use crate::exit::{End, Failure};
use crate::job::Job;
use crate::lock_request::LockRequest;
use crate::settings::Settings;
use crate::status::Status;

fn main() -> ! {
    if supervisor::play(std::env::args_os()) {
        // Nobody reads the supervisor's exit code; a launcher that returns here has failed.
        End::CANNOT_EXECUTE.now();
    }
    signals::survive_file_size_limit();
    let end = match usage::read(std::env::args_os()) {
        Ok(task) => perform(task).unwrap_or_else(Failure::say),
        Err(end) => end,
    };
    end.now()
}

fn perform(task: Task) -> Result<End, Failure> {
    match task {
        Task::Run(args) => {
            let settings = Settings::of(args.acquire, args.running)?;
            let status = settings.request.status.clone();
            to_the_end(status, run::run(settings))
        }
        Task::Once(args) => do_job(Job::once(args)?),
        Task::Every(args) => do_job(Job::every(args)?),
        Task::Hold(args) => {
            // Before we open anything ourselves.
            hold::close_inherited(args.acquire.lease.status_fd.as_deref());
            let request = LockRequest::of(args.acquire, label::starter().as_ref())?;
            let status = request.status.clone();
            to_the_end(status, hold::hold(request))
        }
        Task::Show(args) => looking(show::show(args)),
        Task::Ls(args) => looking(ls::ls(args)),
        Task::Break(args) => looking(breaking::break_lease(args)),
        Task::Forget(args) => looking(forget::forget(args)),
        Task::Metrics(args) => looking(metrics::metrics(args)),
        Task::Doctor(args) => looking(doctor::diagnose(args)),
        Task::Bench(args) => looking(bench::bench(args)),
        Task::Init(args) => looking(init::init(args)),
        Task::Watch(args) => looking(follow::follow(args)),
        Task::Top(args) => looking(top::top(args)),
        Task::Help(args) => help::print(&args, CommandLine::command()).map(|()| End::SUCCESS),
        Task::Pages(args) => pages::write(&args, &CommandLine::command()),
        Task::Completions(args) => {
            print::print(&pages::completions_for(args.shell, &CommandLine::command())).map(|()| End::SUCCESS)
        }
    }
}

fn do_job(job: Job) -> Result<End, Failure> {
    let status = job.settings.request.status.clone();
    to_the_end(status, job::perform(job))
}

/// A task that takes no lock has no events to report.
fn looking(work: impl Future<Output = Result<End, Failure>>) -> Result<End, Failure> {
    to_the_end(Arc::new(Status::to_nobody()), work)
}

/// The time for the last releases that the end of the runtime would interrupt.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// Waits for interrupted requests to a store that answers; one that does not has been waited for
/// already. Other work, such as a name lookup or a disk, is not waited for.
fn shut_down(runtime: Runtime) {
    let (ends, ended) = mpsc::channel::<()>();
    let shut_down = move || {
        runtime.shutdown_background();
        drop(ends);
    };
    if thread::Builder::new().spawn(shut_down).is_ok() {
        let _ = ended.recv_timeout(LAST_WORDS);
    }
}

fn to_the_end(status: Arc<Status>, work: impl Future<Output = Result<End, Failure>>) -> Result<End, Failure> {
    // One thread: starting more would cost a short command more than the lock does. None of our
    // code blocks it.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let end = runtime.map_err(Failure::no_runtime).and_then(|runtime| {
        let end = runtime.block_on(work);
        shut_down(runtime);
        end
    });
    status.close(end.as_ref().err());
    end
}
