//! One cargo command of several: its output is shown, and its result is remembered for the summary
//! at the end.

use std::{
    env, fmt,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use crate::stop::Stop;

/// A command that has run.
pub(crate) struct Step {
    line: String,
    outcome: Outcome,
}

enum Outcome {
    Passed,
    /// It failed with this exit code; `None` if it died of a signal or could not be run.
    Failed(Option<i32>),
    /// Not run, because this machine lacks something.
    LeftOut,
}

impl Step {
    /// Runs cargo in the workspace's root, and passes its output on.
    pub(crate) fn cargo(arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        Self::cargo_in(workspace(), arguments, environment)
    }

    /// The same in the root of a copy of the workspace.
    pub(crate) fn cargo_in(root: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let mut line: String = environment.iter().map(|(name, value)| format!("{name}={value:?} ")).collect();
        line += "cargo";
        for argument in arguments {
            line += " ";
            line += argument;
        }
        Self::ran(line, cargo().args(arguments).envs(environment.iter().copied()).current_dir(root))
    }

    /// Runs another program in the same way.
    pub(crate) fn program(program: &Path, arguments: &[&str]) -> Self {
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        let line = [&[&*name], arguments].concat().join(" ");
        Self::ran(line, Command::new(program).args(arguments).current_dir(workspace()))
    }

    fn ran(line: String, command: &mut Command) -> Self {
        eprintln!("xtask: {line}");
        let outcome = match command.status() {
            Ok(status) if status.success() => Outcome::Passed,
            Ok(status) => Outcome::Failed(status.code()),
            Err(error) => {
                eprintln!("xtask: cannot run {}: {error}", command.get_program().to_string_lossy());
                Outcome::Failed(None)
            }
        };
        Self { line, outcome }
    }

    /// A check of our own: its name, and whether it passed.
    pub(crate) fn own(name: &str, passed: bool) -> Self {
        let outcome = if passed { Outcome::Passed } else { Outcome::Failed(Some(1)) };
        Self { line: name.to_owned(), outcome }
    }

    /// A step that was not run, with the reason.
    pub(crate) fn left_out(what: String) -> Self {
        Self { line: what, outcome: Outcome::LeftOut }
    }

    /// Its exit code, for a command of one step.
    pub(crate) fn code(&self) -> ExitCode {
        match self.outcome {
            Outcome::Passed | Outcome::LeftOut => ExitCode::SUCCESS,
            Outcome::Failed(code) => {
                ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
            }
        }
    }

    /// The same, but this exit code means success, too.
    pub(crate) fn or_exit(mut self, code: i32) -> Self {
        if matches!(self.outcome, Outcome::Failed(Some(exit)) if exit == code) {
            self.outcome = Outcome::Passed;
        }
        self
    }

    pub(crate) fn passed(&self) -> bool {
        matches!(self.outcome, Outcome::Passed)
    }

    /// Ends the task if this step failed.
    pub(crate) fn must_pass(self, task: &str) -> Result<(), Stop> {
        if self.passed() { Ok(()) } else { Err(Stop::Told(account(task, &[self]))) }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.outcome {
            Outcome::Passed => write!(f, "ok      {}", self.line),
            Outcome::LeftOut => write!(f, "LEFT OUT  {}", self.line),
            Outcome::Failed(Some(code)) => write!(f, "FAILED  {} (exit {code})", self.line),
            Outcome::Failed(None) => write!(f, "FAILED  {} (no exit code)", self.line),
        }
    }
}

/// Prints the steps, and returns the exit code of the first one that failed.
pub(crate) fn account(task: &str, steps: &[Step]) -> ExitCode {
    eprintln!("\nxtask {task} ran:");
    for step in steps {
        eprintln!("  {step}");
    }
    let failed = steps.iter().find(|step| matches!(step.outcome, Outcome::Failed(_)));
    failed.map_or(ExitCode::SUCCESS, Step::code)
}

/// The cargo that runs this program.
pub(crate) fn cargo() -> Command {
    Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// The root of the workspace.
pub(crate) fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace")
}

/// The directory in which cargo keeps what it downloads.
pub(crate) fn cargo_home() -> Result<PathBuf, String> {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(env::home_dir()?.join(".cargo")));
    home.ok_or_else(|| "neither CARGO_HOME nor a home directory".into())
}

/// cargo's target directory.
pub(crate) fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace().join("target"), PathBuf::from)
}
