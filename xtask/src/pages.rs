//! `cargo xtask pages`: lets the command write its man pages and completions into `target/pages`.

use std::{
    path::Path,
    process::{Command, ExitCode},
};

use crate::step::{Step, account, target};

pub(crate) fn run() -> ExitCode {
    let build = Step::cargo(&["build", "-p", "leasehold-cli"], &[]);
    if !build.passed() {
        return account("pages", &[build]);
    }
    let into = target().join("pages");
    match write(&mut Command::new(target().join("debug/leasehold")), &into) {
        Ok(()) => {
            println!("{}", into.display());
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("xtask pages: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Lets a built command write its pages.
pub(crate) fn write(command: &mut Command, into: &Path) -> Result<(), String> {
    crate::tool::run(command.arg("pages").arg(into)).map(drop)
}
