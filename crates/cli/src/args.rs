//! The arguments as typed: a file for each task, and one for each group of options that several
//! tasks share. [`settings`](crate::settings) and [`request`](crate::request) interpret them.

mod acquire;
mod bench;
mod breaking;
mod command;
mod completions;
mod doctor;
mod every;
mod forget;
mod help;
mod hold;
mod init;
mod job;
mod lease;
mod ls;
mod metrics;
mod naming;
mod once;
mod pages;
mod run;
mod show;
mod store;
mod top;
mod waiting;
mod watch;

use clap::{Parser, Subcommand};

pub(crate) use self::acquire::AcquireArgs;
pub(crate) use self::bench::BenchArgs;
pub(crate) use self::breaking::BreakArgs;
pub(crate) use self::command::CommandArgs;
pub(crate) use self::completions::CompletionsArgs;
pub(crate) use self::doctor::DoctorArgs;
pub(crate) use self::every::EveryArgs;
pub(crate) use self::forget::ForgetArgs;
pub(crate) use self::help::HelpArgs;
pub(crate) use self::hold::HoldArgs;
pub(crate) use self::init::InitArgs;
pub(crate) use self::job::JobArgs;
pub(crate) use self::lease::LeaseArgs;
pub(crate) use self::ls::LsArgs;
pub(crate) use self::metrics::MetricsArgs;
pub(crate) use self::naming::NamingArgs;
pub(crate) use self::once::OnceArgs;
pub(crate) use self::pages::PagesArgs;
pub(crate) use self::run::RunArgs;
pub(crate) use self::show::ShowArgs;
pub(crate) use self::store::StoreArgs;
pub(crate) use self::top::{KEYS as TOP_KEYS, TopArgs};
pub(crate) use self::waiting::WaitingArgs;
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
