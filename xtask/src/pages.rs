//! `cargo xtask pages`: lets the command write its man pages and completions into `target/pages`.

use std::{
    path::Path,
    process::{Command, ExitCode},
};

use crate::{
    step::{Step, target},
    stop::Stop,
    tool,
};

pub(crate) fn run() -> Result<ExitCode, Stop> {
    Step::cargo(&["build", "-p", "leasehold-cli"], &[]).must_pass("pages")?;
    let into = target().join("pages");
    write(&mut Command::new(target().join("debug/leasehold")), &into)?;
    println!("{}", into.display());
    Ok(ExitCode::SUCCESS)
}

/// Lets a built command write its pages.
pub(crate) fn write(command: &mut Command, into: &Path) -> Result<(), String> {
    tool::run(command.arg("pages").arg(into)).map(drop)
}
