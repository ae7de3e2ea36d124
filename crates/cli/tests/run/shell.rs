//! A shell for commands as users write them: `leasehold` on the PATH, the store in the environment,
//! and stand-ins for the user's programs.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use crate::harness::{Done, OURS, Site};

/// A shell's environment, with our program and the store.
pub(crate) fn in_shell(site: &Site, shell: &str, words: &[&str]) -> Command {
    let mut command = site.process(shell, words);
    command.env("LEASEHOLD_STORE", site.store()).env("PATH", path());
    command
}

/// What such a shell makes of a script.
#[track_caller]
pub(crate) fn sh(site: &Site, script: &str) -> Done {
    site.finish(in_shell(site, "sh", &["-c", script]))
}

/// The same of bash.
#[track_caller]
pub(crate) fn bash(site: &Site, script: &str) -> Done {
    site.finish(in_bash(site, script))
}

pub(crate) fn in_bash(site: &Site, script: &str) -> Command {
    in_shell(site, "bash", &["-c", script])
}

/// `leasehold` is on it.
pub(crate) fn path() -> String {
    let ours = std::path::Path::new(OURS).parent().unwrap().display();
    format!("{ours}:/usr/local/bin:/usr/bin:/bin")
}

/// A program of the user's.
pub(crate) fn program(site: &Site, name: &str, script: &str) {
    fs::write(site.path(name), format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(site.path(name), Permissions::from_mode(0o755)).unwrap();
}
