//! `bench`: runs the benchmarks, and prints the results.

use std::path::PathBuf;
use std::process::ExitCode;

use bench::AnyError;
use bench::backend::{self, Backend};
use bench::figure::{self, Figures, Telling};
use bench::page::{self, docs, table};
use bench::settings::Settings;
use bench::workloads::ALL;
use clap::Parser;
use clap::builder::PossibleValuesParser;

/// Measures Leasehold next to bare loops on the same client, in the same process and run
#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench", disable_version_flag = true)]
struct Words {
    /// The short form, about a minute; fails if a count, which noise does not change, misses its
    /// target
    #[arg(long)]
    short: bool,
    /// Print a line of JSON for each figure
    #[arg(long)]
    json: bool,
    /// Write docs/performance.md and docs/figures.md from the figures
    #[arg(long, conflicts_with_all = ["short", "on", "workloads"])]
    write: bool,
    /// Measure nothing; write the same pages from the output of earlier runs with --json, where the
    /// last value of a figure counts
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["short", "json", "write", "on", "workloads"])]
    pages: Vec<PathBuf>,
    /// Measure this store only; may be given several times
    #[arg(long, value_name = "BACKEND", value_parser = backends())]
    on: Vec<String>,
    /// Measure these workloads only
    #[arg(value_name = "NAME", value_parser = workloads())]
    workloads: Vec<String>,
}

fn main() -> ExitCode {
    bench::worker::serve_if_told_to(None);
    bench::path::walk_if_told_to(None);
    let words = Words::parse();
    if !words.pages.is_empty() {
        let written = figure::told(&words.pages).and_then(|figures| page::write(&docs(), &figures));
        return if written.inspect_err(complain).is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let chosen = ALL.iter().filter(|workload| wanted(&words.workloads, workload.name));
    let backends =
        backend::ALL.into_iter().filter(|backend| words.on.iter().any(|name| name == backend.name()));
    let settings = Settings::new(words.short, backends.collect());
    let mut figures = Figures::new(if words.json { Telling::Json } else { Telling::Table });
    let mut broken = false;
    for workload in chosen {
        if let Err(why) = (workload.run)(&settings, &mut figures) {
            eprintln!("bench: {}: {why}", workload.name);
            broken = true;
        }
    }
    if !words.json {
        print!("{}", table(figures.all()));
    }
    if broken {
        return ExitCode::FAILURE;
    }
    if words.write && page::write(&docs(), figures.all()).inspect_err(complain).is_err() {
        return ExitCode::FAILURE;
    }
    // A missed time is printed; a missed count is a failure. Only the short form is a test.
    let failures: Vec<_> = figures.all().iter().filter(|figure| figure.fails()).collect();
    for figure in &failures {
        let target = figure.target.as_deref().unwrap_or_default();
        eprintln!("bench: {}: {} where {target} is demanded", figure.name, figure.value);
    }
    if words.short && !failures.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn complain(why: &AnyError) {
    eprintln!("bench: no pages: {why}");
}

/// True if `name` is among `names`, or no name was given.
fn wanted(names: &[String], name: &str) -> bool {
    names.is_empty() || names.iter().any(|wanted| wanted == name)
}

fn backends() -> PossibleValuesParser {
    PossibleValuesParser::new(backend::ALL.map(Backend::name))
}

fn workloads() -> PossibleValuesParser {
    PossibleValuesParser::new(ALL.map(|workload| workload.name))
}
