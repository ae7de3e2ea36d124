//! A user whose home belongs to the test, so that the default store can be used without touching a
//! real one.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use nix::unistd::{Uid, User};

use crate::harness::Site;

/// The directory of the default store.
#[derive(Debug)]
pub(crate) struct Home {
    pub(crate) path: PathBuf,
    /// The user database with that home; `None` if the system does not allow a private one.
    database: Option<PathBuf>,
    /// The parts of the path that did not exist before.
    to_remove: Vec<PathBuf>,
}

impl Home {
    /// The test's own one if the system allows that; otherwise the real one, which is left as it
    /// was found.
    pub(crate) fn of(site: &Site) -> Self {
        let path = site.path("home");
        let database = site.path("passwd");
        fs::create_dir(&path).unwrap();
        fs::write(&database, format!("root:x:0:0::{}:/bin/sh\n", path.display())).unwrap();
        let own = Self { path, database: Some(database), to_remove: Vec::new() };
        let allowed = own.live_in(Command::new("true")).stderr(Stdio::null()).status();
        if allowed.is_ok_and(|status| status.success()) {
            return own;
        }
        let path = User::from_uid(Uid::effective()).unwrap().expect("we are in the user database").dir;
        let parts = [".local", ".local/state", ".local/state/leasehold"].map(|part| path.join(part));
        let to_remove = parts.into_iter().filter(|part| !part.exists()).collect();
        Self { path, database: None, to_remove }
    }

    /// The same command, run by the user of that home.
    pub(crate) fn live_in(&self, command: Command) -> Command {
        let Some(database) = &self.database else { return command };
        let mut inner = Command::new("unshare");
        let script = "mount --bind \"$0\" /etc/passwd && exec \"$@\"";
        inner.args(["--user", "--map-root-user", "--mount", "sh", "-c", script]).arg(database);
        inner.arg(command.get_program()).args(command.get_args()).stdin(Stdio::null());
        if let Some(directory) = command.get_current_dir() {
            // Tests that set a directory also clear the environment.
            inner.current_dir(directory).env_clear();
        }
        for (name, value) in command.get_envs() {
            if let Some(value) = value {
                inner.env(name, value);
            }
        }
        inner
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        for part in self.to_remove.iter().rev() {
            // Only the last directory is certainly ours; the others stay if they contain something
            // by now.
            let _ = if part.ends_with("leasehold") { fs::remove_dir_all(part) } else { fs::remove_dir(part) };
        }
    }
}
