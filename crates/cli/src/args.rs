//! The arguments as typed: a file for each task, and one for the groups of options that several
//! tasks have. [`settings`](crate::settings) and [`lock_request`](crate::lock_request) interpret
//! them.

mod bench;
mod breaking;
mod doctor;
mod every;
mod forget;
mod groups;
mod hold;
mod init;
mod ls;
mod metrics;
mod once;
mod pages;
mod run;
mod show;
mod top;
mod watch;

use clap::{Parser, Subcommand};

pub(crate) use self::bench::BenchArgs;
pub(crate) use self::breaking::BreakArgs;
pub(crate) use self::doctor::DoctorArgs;
pub(crate) use self::every::EveryArgs;
pub(crate) use self::forget::ForgetArgs;
pub(crate) use self::groups::{
    AcquireArgs, CommandArgs, JobArgs, LeaseArgs, PlaceArgs, StoreArgs, WaitingArgs,
};
pub(crate) use self::hold::HoldArgs;
pub(crate) use self::init::InitArgs;
pub(crate) use self::ls::LsArgs;
pub(crate) use self::metrics::MetricsArgs;
pub(crate) use self::once::OnceArgs;
pub(crate) use self::pages::{CompletionsArgs, HelpArgs, PagesArgs};
pub(crate) use self::run::RunArgs;
pub(crate) use self::show::ShowArgs;
pub(crate) use self::top::{KEYS as TOP_KEYS, TopArgs};
pub(crate) use self::watch::WatchArgs;

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

/// The tasks.
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
