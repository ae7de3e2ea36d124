//! `cargo xtask upgrade`: tests this build together with an older one, which is built from the
//! history.

use std::{
    path::PathBuf,
    process::{Command, ExitCode},
};

use crate::{
    files, servers,
    step::{self, Step, account, target, workspace},
    stop::Stop,
    tool,
};

/// The first version whose leases contain their fences. Earlier ones, of which none was released,
/// take such a lease for another program's.
const OLDER: &str = "14de6866bed8f5ace81a317210cdec594b8c15ae";

/// Runs one test after the other; the arguments select among them.
pub(crate) fn run(arguments: &[String]) -> Result<ExitCode, Stop> {
    if !has_history() {
        let what = format!(
            "the tests with an older build: this clone has no history back to {OLDER:.8}; remedy: git fetch --unshallow"
        );
        return Ok(account("upgrade", &[Step::left_out(what)]));
    }
    servers::fetch()?;
    let older = provide().map_err(|why| format!("the older version cannot be built: {why}"))?;
    let harness = ["test", "-p", "faults", "--test", "upgrade", "--"];
    let shown = ["--ignored", "--nocapture", "--test-threads=1"];
    let chosen = arguments.iter().map(String::as_str);
    let line: Vec<_> = harness.into_iter().chain(shown).chain(chosen).collect();
    let place = older.to_string_lossy();
    Ok(account("upgrade", &[Step::cargo(&line, &[("LEASEHOLD_OLDER_WORKER", &place)])]))
}

fn has_history() -> bool {
    let mut git = Command::new("git");
    git.args(["cat-file", "-e", &format!("{OLDER}^{{commit}}")]).current_dir(workspace());
    git.output().is_ok_and(|output| output.status.success())
}

/// The older worker, built if it is missing. Only the program is kept.
fn provide() -> Result<PathBuf, String> {
    let place = target().join("upgrade");
    let worker = place.join(format!("worker-{OLDER:.8}"));
    if worker.is_file() {
        return Ok(worker);
    }
    eprintln!("xtask upgrade: building the worker of {OLDER:.8}, which takes some minutes, once");
    let workshop = files::workshop(&place)?;
    let (tree, build) = (files::directory(workshop.path(), "tree")?, workshop.path().join("build"));
    let archive = workshop.path().join("tree.tar");
    tool::run(
        Command::new("git").args(["archive", "--output"]).arg(&archive).arg(OLDER).current_dir(workspace()),
    )?;
    tool::run(Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(&tree))?;
    let mut cargo = step::cargo();
    cargo.args(["build", "--locked", "-p", "faults", "--bin", "worker"]).current_dir(&tree);
    tool::run(cargo.env("CARGO_TARGET_DIR", &build).env("CARGO_INCREMENTAL", "0"))?;
    files::put(&build.join("debug/worker"), &worker)?;
    Ok(worker)
}
