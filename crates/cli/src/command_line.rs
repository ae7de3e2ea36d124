//! The command line as typed: a task, and its arguments.

use clap::{Parser, Subcommand};

use crate::bench::BenchArgs;
use crate::breaking::BreakArgs;
use crate::doctor::DoctorArgs;
use crate::follow::WatchArgs;
use crate::forget::ForgetArgs;
use crate::help::HelpArgs;
use crate::hold::HoldArgs;
use crate::init::InitArgs;
use crate::job::{EveryArgs, OnceArgs};
use crate::ls::LsArgs;
use crate::metrics::MetricsArgs;
use crate::pages::{CompletionsArgs, PagesArgs};
use crate::run::RunArgs;
use crate::show::ShowArgs;
use crate::top::TopArgs;

/// Locks for commands: while one runs under a key, no other does
#[derive(Debug, Parser)]
#[command(
    name = "leasehold",
    version,
    disable_help_subcommand = true,
    subcommand_value_name = "TASK",
    subcommand_help_heading = "Tasks",
    after_help = "`leasehold help TASK` says more; so does `leasehold help exit-codes`, `environment`, `stores` or `events`.",
    after_long_help = EXAMPLE
)]
pub(crate) struct CommandLine {
    #[command(subcommand)]
    pub(crate) task: Task,
}

const EXAMPLE: &str = "\
Example: at most one report at a time, whoever starts it, and no mail from cron when one runs already:
  leasehold run -nqE0 report -- ./report --daily

`leasehold help TASK` says more; so does `leasehold help exit-codes`, `environment`, `stores` or `events`.";

#[derive(Debug, Subcommand)]
pub(crate) enum Task {
    Run(RunArgs),
    Once(OnceArgs),
    Every(EveryArgs),
    Hold(HoldArgs),
    Show(ShowArgs),
    Ls(LsArgs),
    Break(BreakArgs),
    Forget(ForgetArgs),
    Doctor(DoctorArgs),
    Bench(BenchArgs),
    Top(TopArgs),
    Watch(WatchArgs),
    Metrics(MetricsArgs),
    Init(InitArgs),
    Help(HelpArgs),
    Pages(PagesArgs),
    Completions(CompletionsArgs),
}
