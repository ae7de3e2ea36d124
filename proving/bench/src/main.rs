//! `bench`: measures, and says what it found.

use std::path::PathBuf;
use std::process::ExitCode;
use std::{env, fs};

use bench::figure::{Figures, Telling};
use bench::page::{Machine, page, table};
use bench::settings::Settings;
use bench::venue::Venue;
use bench::workloads::{ALL, Workload};
use clap::Parser;

/// Measures Leasehold beside bare loops on the same client, in the same process and run
#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench", disable_version_flag = true)]
struct Words {
    /// A minute's worth everywhere; fails where a count, which noise does not move, misses its target
    #[arg(long)]
    short: bool,
    /// A line of JSON for each figure
    #[arg(long)]
    json: bool,
    /// Write docs/performance.md from the figures
    #[arg(long, conflicts_with_all = ["short", "on", "workloads"])]
    write: bool,
    /// Measure here only: memory, file, redis-6.2, redis-7.0, redis-8.2, valkey-9.1
    #[arg(long, value_name = "VENUE", value_parser = Venue::named)]
    on: Vec<Venue>,
    /// Measure these only: uncontended, hand_off, line, waiters, held, file
    #[arg(value_name = "NAME", value_parser = named)]
    workloads: Vec<&'static Workload>,
}

fn main() -> ExitCode {
    bench::hand::serve_if_told_to(None);
    let words = Words::parse();
    let chosen = if words.workloads.is_empty() { ALL.iter().collect() } else { words.workloads };
    let settings = Settings::new(words.short, words.on);
    let mut figures = Figures::new(if words.json { Telling::Json } else { Telling::Table });
    for workload in chosen {
        if let Err(why) = (workload.run)(&settings, &mut figures) {
            eprintln!("bench: {}: {why}", workload.name);
            return ExitCode::FAILURE;
        }
    }
    if !words.json {
        print!("{}", table(figures.all()));
    }
    if words.write
        && let Err(why) = fs::write(page_path(), page(figures.all(), &Machine::this()))
    {
        eprintln!("bench: {}: {why}", page_path().display());
        return ExitCode::FAILURE;
    }
    // A time that misses its target is a finding; a count that does is a failure, and only the short form is a test.
    let failures: Vec<_> = figures.all().iter().filter(|figure| figure.fails()).collect();
    for figure in &failures {
        let target = figure.target.as_deref().unwrap_or_default();
        eprintln!("bench: {}: {} where {target} is demanded", figure.name, figure.value);
    }
    if words.short && !failures.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn named(name: &str) -> Result<&'static Workload, String> {
    let known = || ALL.map(|workload| workload.name).join(", ");
    ALL.iter().find(|workload| workload.name == name).ok_or_else(|| format!("known are {}", known()))
}

/// Where this was built, unless it is run by cargo in a tree that was moved since.
fn page_path() -> PathBuf {
    let built =
        env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    built.join("../../docs/performance.md")
}
