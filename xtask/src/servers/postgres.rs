//! PostgreSQL, which the tests use as a store and as the database of the manual's fenced writes.

use std::fs;
use std::path::Path;
use std::process::Command;

use servers::{Pooler, Postgres, Wheel};

use super::{debian, wheel};
use crate::tool;

/// Downloads the newest version, and an older one if this machine has none or the tests ask for it.
pub(super) fn provide(place: &Path) -> Result<(), String> {
    let [older, newest] = Wheel::ALL;
    let there = Postgres::all_programs();
    let has_older = there.keys().any(|version| *version < newest.version);
    if !there.contains_key(&older.version) && (!has_older || Postgres::is_named(older.version)) {
        fetch(place, older)?;
    }
    if !there.contains_key(&newest.version) {
        fetch(place, newest)?;
    }
    Ok(())
}

fn fetch(place: &Path, from: Wheel) -> Result<(), String> {
    eprintln!("xtask servers: downloading PostgreSQL {}", from.version);
    let said = |error: std::io::Error| error.to_string();
    let workshop = tempfile::Builder::new().prefix(".incoming-").tempdir_in(place).map_err(said)?;
    let made = wheel::unpack(from.requirement, workshop.path())?;
    let programs = from.programs_in(&made);
    for program in ["initdb", "postgres", "psql", "pg_basebackup"] {
        tool::make_executable(&programs.join(program))?;
        tool::run(Command::new(programs.join(program)).arg("--version"))?;
    }
    let home = from.home();
    if home.exists() {
        fs::remove_dir_all(&home).map_err(said)?;
    }
    fs::rename(&made, home).map_err(said)
}

/// Downloads libfaketime, which gives a server another clock, unless this machine has it.
pub(super) fn provide_fake_clock(place: &Path) -> Result<(), String> {
    if Postgres::fake_clock().is_some() {
        return Ok(());
    }
    eprintln!("xtask servers: downloading libfaketime");
    let said = |error: std::io::Error| error.to_string();
    let workshop = tempfile::Builder::new().prefix(".incoming-").tempdir_in(place).map_err(said)?;
    let made = debian::make_fake_clock(workshop.path())?;
    fs::rename(&made, Postgres::fetched_fake_clock()).map_err(said)
}

/// Downloads PgBouncer, unless this machine has it.
pub(super) fn provide_pooler(place: &Path) -> Result<(), String> {
    if Pooler::program().is_some() {
        return Ok(());
    }
    eprintln!("xtask servers: downloading PgBouncer");
    let said = |error: std::io::Error| error.to_string();
    let workshop = tempfile::Builder::new().prefix(".incoming-").tempdir_in(place).map_err(said)?;
    let made = debian::make_pooler(workshop.path())?;
    tool::run(Command::new(made.join("pgbouncer")).arg("--version"))?;
    fs::rename(&made, Pooler::fetched()).map_err(said)
}
