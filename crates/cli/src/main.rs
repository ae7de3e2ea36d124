//! The `leasehold` command: runs a command while holding a lock.

mod args;
mod command;
mod default_store;
mod environment;
mod exit;
mod minder;
mod run;
mod say;
mod settings;
mod signals;
mod store_url;
mod terminal;
mod time;
mod usage;
mod watch;

use crate::args::Task;
use crate::exit::{End, Failure};
use crate::settings::Settings;

fn main() -> ! {
    let mut words = std::env::args_os();
    if minder::is_minder(words.next().as_deref()) {
        minder::mind(words);
        std::process::exit(0);
    }
    let end = match usage::read(std::env::args_os()) {
        Ok(task) => perform(task).unwrap_or_else(Failure::say),
        Err(end) => end,
    };
    end.now()
}

fn perform(task: Task) -> Result<End, Failure> {
    match task {
        Task::Run(args) => {
            let settings = Settings::of(args)?;
            // One thread: starting more would cost a short command more than the lock does. Nothing of ours blocks it.
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.map_err(Failure::no_runtime)?;
            let end = runtime.block_on(run::run(settings));
            // Whatever still waits for a name server or a disk need not be waited for.
            runtime.shutdown_background();
            end
        }
    }
}
