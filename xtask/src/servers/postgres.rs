//! PostgreSQL, which the tests use as a store and as the database of the manual's fenced writes.

use std::process::Command;

use servers::{Pooler, Postgres, Wheel};

use super::{debian, install, wheel};
use crate::{files, tool};

/// Downloads the newest version, and an older one if this machine has none or the tests ask for it.
pub(super) fn provide() -> Result<(), String> {
    let [older, newest] = Wheel::ALL;
    let there = Postgres::all_programs();
    let has_older = there.keys().any(|version| *version < newest.version);
    if !there.contains_key(&older.version) && (!has_older || Postgres::is_named(older.version)) {
        fetch(older)?;
    }
    if !there.contains_key(&newest.version) {
        fetch(newest)?;
    }
    Ok(())
}

fn fetch(from: Wheel) -> Result<(), String> {
    install(&format!("PostgreSQL {}", from.version), &from.home(), |workshop| {
        let made = wheel::unpack(from.requirement, &wheel::PYTHON, workshop)?;
        let programs = from.programs_in(&made);
        for program in ["initdb", "postgres", "psql", "pg_basebackup"] {
            files::make_executable(&programs.join(program))?;
            tool::run(Command::new(programs.join(program)).arg("--version"))?;
        }
        Ok(made)
    })
}

/// Downloads libfaketime, which gives a server another clock, unless this machine has it.
pub(super) fn provide_fake_clock() -> Result<(), String> {
    if Postgres::fake_clock().is_some() {
        return Ok(());
    }
    install("libfaketime", &Postgres::fetched_fake_clock(), debian::make_fake_clock)
}

/// Downloads PgBouncer, unless this machine has it.
pub(super) fn provide_pooler() -> Result<(), String> {
    if Pooler::program().is_some() {
        return Ok(());
    }
    install("PgBouncer", &Pooler::fetched(), |workshop| {
        let made = debian::make_pooler(workshop)?;
        tool::run(Command::new(made.join("pgbouncer")).arg("--version"))?;
        Ok(made)
    })
}
