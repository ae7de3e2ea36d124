//! A standby, which replicates a server and can take over from it.

use std::io;
use std::process::Stdio;

use super::{Postgres, as_nobody, new_directory};

impl Postgres {
    /// Starts a standby that streams all changes from this server; `SELECT pg_promote()` promotes it.
    #[track_caller]
    pub fn standby(&self) -> Self {
        self.try_standby().unwrap_or_else(|why| panic!("PostgreSQL: a standby: {why}"))
    }

    fn try_standby(&self) -> io::Result<Self> {
        let directory = new_directory()?;
        let copied = as_nobody(&self.programs.join("pg_basebackup"))
            .args(["--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast", "--no-sync"])
            .arg("-D")
            .arg(directory.path().join("data"))
            .args(["-d", &self.config()])
            .current_dir(directory.path())
            .stdin(Stdio::null())
            .output()
            .map_err(|error| io::Error::other(format!("pg_basebackup: {error}")))?;
        if !copied.status.success() {
            return Err(io::Error::other(String::from_utf8_lossy(&copied.stderr)));
        }
        Self::launched(&self.programs, self.settings.clone(), false, directory)
    }
}
