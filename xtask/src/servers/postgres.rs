//! PostgreSQL: a store, and the database of the manual's writes with a fence.

use std::fs;
use std::path::Path;

use servers::Postgres;

use super::wheel;
use crate::tool;

/// Fetches it, unless this machine has one.
pub(super) fn provide(place: &Path) -> Result<(), String> {
    if Postgres::programs().is_some() {
        return Ok(());
    }
    eprintln!("xtask servers: fetching PostgreSQL");
    let said = |error: std::io::Error| error.to_string();
    let workshop = tempfile::Builder::new().prefix(".incoming-").tempdir_in(place).map_err(said)?;
    let made = wheel::unpack("pgserver==0.1.4", workshop.path())?.join("pgserver/pginstall");
    for program in ["initdb", "postgres", "psql"] {
        tool::make_executable(&made.join("bin").join(program))?;
    }
    fs::rename(&made, Postgres::fetched()).map_err(said)
}
