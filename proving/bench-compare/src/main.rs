//! `bench-compare`: compares Leasehold with other lock libraries.

use std::process::ExitCode;

use bench::backend::{self, Backend};
use bench::figure::{Figures, Telling};
use bench::page::{docs, table};
use bench_compare::competitors::{ALL, Competitor};
use bench_compare::settings::Settings;
use bench_compare::targets::TARGETS;
use bench_compare::{hand_off, ours, page, uncontended};
use clap::Parser;
use clap::builder::PossibleValuesParser;
use competitor::AnyError;

/// Measures Leasehold and other lock libraries, each in separate processes, on the same server
#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench-compare", disable_version_flag = true)]
struct Words {
    /// The short form, about a minute: fewer libraries, fewer repetitions
    #[arg(long)]
    short: bool,
    /// Print a line of JSON for each figure
    #[arg(long)]
    json: bool,
    /// Write docs/peers.md from the figures
    #[arg(long, conflicts_with_all = ["short", "competitors"])]
    write: bool,
    /// The server that the locks are on; without it, Redis 7.0, and then PostgreSQL
    #[arg(long, value_name = "BACKEND", value_parser = backends(), conflicts_with = "write")]
    on: Option<String>,
    /// Compare Leasehold with these libraries only
    #[arg(value_name = "NAME", value_parser = competitors())]
    competitors: Vec<String>,
}

/// What is measured without `--on`.
const DEFAULTS: [&str; 2] = ["redis-7.0", "postgres"];

fn main() -> ExitCode {
    ours::play_if_told_to();
    let words = Words::parse();
    match measure(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("bench-compare: {why}");
            ExitCode::FAILURE
        }
    }
}

fn measure(words: &Words) -> Result<(), AnyError> {
    let named: Vec<_> = words.on.iter().filter_map(|name| Backend::named(name)).collect();
    let backends =
        if named.is_empty() { DEFAULTS.into_iter().filter_map(Backend::named).collect() } else { named };
    let names = &words.competitors;
    let mut parts: Vec<_> =
        backends.into_iter().map(|backend| Settings::new(words.short, backend, names)).collect();
    let is_measured = |name: &String| {
        parts.iter().flat_map(|part| &part.competitors).any(|competitor| competitor.name() == name)
    };
    if let Some(name) = names.iter().find(|name| !is_measured(name)) {
        return Err(format!("{name} has no locks there; run it without --on").into());
    }
    // With no other library there is nothing to compare.
    parts.retain(|part| part.competitors.len() > 1 || names.is_empty());
    // Checked before the first measurement, so that a missing library is not noticed an hour later.
    for part in &mut parts {
        part.competitors.retain(is_here);
        for competitor in &part.competitors {
            competitor.command("")?;
        }
    }
    let telling = if words.json { Telling::Json } else { Telling::Table };
    let mut figures = Figures::against(&TARGETS, telling);
    for part in &parts {
        let store = part.backend.open();
        uncontended::run(part, &mut figures, &store)?;
        hand_off::run(part, &mut figures, &store)?;
    }
    if !words.json {
        print!("{}", table(figures.all()));
    }
    if words.write {
        page::write(&docs(), figures.all())?;
    }
    Ok(())
}

/// True if this machine can run the library; prints what is missing.
fn is_here(competitor: &Competitor) -> bool {
    let lacking = competitor.lacking();
    if !lacking.is_empty() {
        eprintln!("bench-compare: LEFT OUT: {competitor}: this machine lacks {}", lacking.join(" and "));
    }
    lacking.is_empty()
}

/// The backends with a server, because the other libraries support nothing else.
fn backends() -> PossibleValuesParser {
    let servers = backend::ALL.into_iter().filter(|backend| backend.flavor().is_some());
    PossibleValuesParser::new(servers.chain([Backend::Postgres]).map(Backend::name))
}

fn competitors() -> PossibleValuesParser {
    PossibleValuesParser::new(ALL.map(Competitor::name))
}
