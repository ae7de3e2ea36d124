//! `cargo xtask bench-start`: measures how much later a command starts under a lock than under
//! timeout(1), which starts it the same way without a lock. Runs alternate, so that other load on
//! the machine affects both.

use std::{
    path::Path,
    process::{Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use servers::{Flavor, Server};

use crate::{
    files,
    servers::fetch,
    step::{Step, account},
    stop::Stop,
};

const RUNS: usize = 50;

/// The most that a lock may cost beyond `timeout`, on the file store and on a server of this
/// machine.
const FILE: Duration = Duration::from_millis(10);
const SERVER: Duration = Duration::from_millis(15);

pub(crate) fn run() -> Result<ExitCode, Stop> {
    fetch()?;
    Step::cargo(&["build", "--release", "-p", "leasehold-cli"], &[]).must_pass("bench-start")?;
    let steps = measure(&crate::step::target().join("release/leasehold"))?;
    Ok(account("bench-start", &steps))
}

fn measure(leasehold: &Path) -> Result<Vec<Step>, String> {
    let place = files::temporary()?;
    let file = format!("file:{}/leases.db", place.path().display());
    let server = Server::start(Flavor::Redis82);
    let under = |store: &str| {
        let mut command = Command::new(leasehold);
        command.args(["run", "--store", store, "k", "--", "true"]);
        command
    };
    let mut timeout = Command::new("timeout");
    timeout.args(["9", "true"]);
    let mut commands = [timeout, under(&file), under(&server.url())];
    let mut times = [const { Vec::new() }; 3];
    // The first run fills the page cache and creates the file.
    for round in 0..=RUNS {
        for (command, times) in commands.iter_mut().zip(&mut times) {
            let took = time(command)?;
            if round > 0 {
                times.push(took);
            }
        }
    }
    let [plain, file, server] = times.map(median);
    let row = |name: &str, took: Duration, most: Duration| {
        let more = took.saturating_sub(plain);
        let name = format!(
            "{name}: {took:.1?}, {more:.1?} more than timeout's {plain:.1?} (median of {RUNS}; at most {most:?} more)"
        );
        Step::own(&name, more <= most)
    };
    Ok(vec![row("file store", file, FILE), row("loopback Redis", server, SERVER)])
}

fn time(command: &mut Command) -> Result<Duration, String> {
    command.stdin(Stdio::null());
    let started = Instant::now();
    let status = command.status().map_err(|error| error.to_string())?;
    let took = started.elapsed();
    if status.success() { Ok(took) } else { Err(format!("{command:?} ended with {status}")) }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
