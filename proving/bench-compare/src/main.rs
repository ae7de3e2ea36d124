//! `bench-compare`: compares Leasehold with other lock libraries.

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;

use bench::backend::{self, Backend};
use bench::figure::{Figures, Telling};
use bench::page::table;
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
    /// Write docs/peers.md and its plots from the figures
    #[arg(long, conflicts_with_all = ["short", "competitors"])]
    write: bool,
    /// The server that the locks are on
    #[arg(long, value_name = "BACKEND", value_parser = backends(), default_value = "redis-7.0")]
    on: String,
    /// Compare Leasehold with these libraries only
    #[arg(value_name = "NAME", value_parser = competitors())]
    competitors: Vec<String>,
}

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
    let backend = Backend::named(&words.on).ok_or("no such backend")?;
    let mut settings = Settings::new(words.short, backend, &words.competitors);
    settings.competitors.retain(is_here);
    // Checked before the first measurement, so that a missing library is not noticed an hour later.
    for competitor in &settings.competitors {
        competitor.command("")?;
    }
    let telling = if words.json { Telling::Json } else { Telling::Table };
    let mut figures = Figures::against(&TARGETS, telling);
    let store = backend.open();
    uncontended::run(&settings, &mut figures, &store)?;
    hand_off::run(&settings, &mut figures, &store)?;
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
    PossibleValuesParser::new(servers.map(Backend::name))
}

fn competitors() -> PossibleValuesParser {
    PossibleValuesParser::new(ALL.map(Competitor::name))
}

/// The docs of the tree in which this was built, unless cargo runs it in a tree that was moved.
fn docs() -> PathBuf {
    let built =
        env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    built.join("../../docs")
}
