//! A server whose clock can be set, by libfaketime.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::{Postgres, as_nobody};
use crate::Flavor;

impl Postgres {
    /// Creates a database and starts a server on it whose clock can be [set](Self::set_clock).
    #[track_caller]
    pub fn with_a_clock_to_set() -> Self {
        assert!(Self::fake_clock().is_some(), "libfaketime: there is none; run `cargo xtask servers`");
        let programs = Self::programs().expect("PostgreSQL: there is none; run `cargo xtask servers`");
        let started = Self::try_start(&programs, &[], true);
        started.unwrap_or_else(|why| panic!("PostgreSQL: {why}"))
    }

    /// Sets its wall clock this many seconds off that of the machine. Its other clocks run on.
    #[track_caller]
    pub fn set_clock(&self, seconds: i64) {
        assert!(self.has_a_clock_to_set, "start it with `with_a_clock_to_set`");
        // Renamed into place, because the server may read it at any time.
        let (file, new) = (self.clock_file(), self.directory().join("clock.new"));
        fs::write(&new, format!("{seconds:+}\n")).expect("a file in the server's own directory");
        fs::rename(new, file).expect("a file in the server's own directory");
    }

    /// The library that gives a program another clock: downloaded, or installed as Debian does.
    pub fn fake_clock() -> Option<PathBuf> {
        let installed = fs::read_dir("/usr/lib").into_iter().flatten().flatten();
        let installed = installed.map(|entry| entry.path().join("faketime"));
        let places = [Self::fetched_fake_clock()].into_iter().chain(installed);
        places.map(|place| place.join("libfaketime.so.1")).find(|library| library.is_file())
    }

    /// Where `cargo xtask servers` puts it. It need not exist.
    pub fn fetched_fake_clock() -> PathBuf {
        Flavor::fetched_into().join("faketime")
    }

    fn clock_file(&self) -> PathBuf {
        self.directory().join("clock")
    }

    pub(super) fn command(&self) -> Command {
        let server = self.programs.join("postgres");
        let Some(library) = Self::fake_clock().filter(|_| self.has_a_clock_to_set) else {
            return as_nobody(&server);
        };
        self.set_clock(0);
        let mut command = as_nobody("env".as_ref());
        command
            .arg(format!("LD_PRELOAD={}", library.display()))
            .arg(format!("FAKETIME_TIMESTAMP_FILE={}", self.clock_file().display()))
            .args(["FAKETIME_NO_CACHE=1", "FAKETIME_DONT_FAKE_MONOTONIC=1"])
            .arg(server);
        command
    }
}
