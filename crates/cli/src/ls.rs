//! `leasehold ls`: lists the locks that are held or waited for.

use std::io;

use clap::Args;
use leasehold::{Key, Locks};
use rustix::termios::tcgetwinsize;

use crate::args::PrefixArgs;
use crate::exit::{End, Failure};
use crate::lock_json::LockJson;
use crate::mark;
use crate::options::time_of;
use crate::print::print;
use crate::say;
use crate::table::table;
use crate::time;

/// List the locks that are held or waited for
///
/// Locks whose names begin with PREFIX, taken literally, ordered by bytes. Locks of other programs
/// are listed only if a leasehold process waits for them: on a server, they cannot be told from
/// other strings.
///
/// HELD is the time since the lock was granted, LEFT the time until its lease ends unless it is
/// renewed.
///
/// A server is scanned a thousand keys at a time, which delays nobody but takes a while with
/// millions of keys.
#[derive(Args, Debug)]
#[command(
    override_usage = "leasehold ls [OPTIONS] PREFIX|--all",
    after_help = "Exit codes: `leasehold help exit-codes`.",
    after_long_help = EXAMPLE
)]
pub(crate) struct LsArgs {
    /// List all locks, whatever their names
    #[arg(short, long)]
    pub(crate) all: bool,

    /// Print JSON, one object per line
    ///
    /// One for each lock, as `leasehold show --json` prints it, without mark and last_break; with
    /// --marks, key and the fields of mark.
    #[arg(long)]
    pub(crate) json: bool,

    /// List only locks that have been held for at least this time; the exit code is 1 if there are
    /// any
    ///
    /// For monitoring: the exit code is 0 if no lock has been held for this long. The time is
    /// counted from the grant, not from the last renewal. Other programs' locks are not listed,
    /// because nobody knows when they were acquired.
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    pub(crate) held_for: Option<String>,

    /// List jobs of `once` and `every` instead of locks: when each last began, who ran it, and when
    /// it is due
    #[arg(long, conflicts_with = "held_for")]
    pub(crate) marks: bool,

    #[command(flatten)]
    pub(crate) which: PrefixArgs,

    /// Print nothing if there is no lock to list
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Print which store is used
    #[arg(short, long)]
    pub(crate) verbose: bool,
}

const EXAMPLE: &str = "\
On a terminal, long keys and labels are shortened so that each lock has one line.
If a node of a cluster cannot be reached, the locks of the others are listed; the exit code is 69.

Example: has a nightly job been running for two hours? And the holders of all nightly locks, for a program:
  leasehold ls --held-for 2h nightly:
  leasehold ls --json nightly:";

pub(crate) async fn ls(args: LsArgs) -> Result<End, Failure> {
    // That is a mistake, or a variable that was not set.
    if args.which.prefixes.iter().any(|prefix| prefix.is_empty()) {
        let line = "the prefix is empty: name what the keys begin with, or list all of them";
        return Err(Failure::usage(line).hint("leasehold ls --all"));
    }
    let least = time_of("--held-for", args.held_for)?;
    let (prefix, place) = args.which.resolve()?;
    let locks = place.look(args.quiet).await?;
    if args.verbose {
        say::line(format_args!("looking at {}", locks.store()));
    }
    if args.marks {
        return marks(&locks, &prefix, args.json, args.quiet).await;
    }
    let (mut states, missed) = locks.list_reachable(&prefix).await?;
    if let Some(least) = least {
        states.retain_mut(|state| {
            let mut holders = std::mem::take(&mut state.holders);
            holders.retain(|holding| state.held_for(holding) >= Some(least));
            state.holders = holders;
            !state.holders.is_empty()
        });
    }
    let end = match missed[..] {
        [] if least.is_some() && !states.is_empty() => End::FOUND,
        [] => End::SUCCESS,
        _ => End::NO_STORE,
    };
    missed.iter().for_each(|fault| say::line(format_args!("not all locks are listed: {fault}")));
    if states.is_empty() {
        let which = which(&prefix);
        let what = least.map_or_else(
            || "is held or waited for".into(),
            |least| format!("has been held for {}", time::shown(least)),
        );
        if !args.quiet && missed.is_empty() {
            say::line(format_args!("no lock{which} {what} at {}", locks.store()));
        }
        return Ok(end);
    }
    if args.json {
        // In parts, because the text is as large as what it is about.
        for part in states.chunks(1000) {
            print(&part.iter().map(LockJson::line).collect::<String>())?;
        }
    } else {
        print(&table(&states, width()))?;
    }
    Ok(end)
}

async fn marks(locks: &Locks, prefix: &[u8], json: bool, quiet: bool) -> Result<End, Failure> {
    let marks = locks.marks(prefix).await?;
    if json {
        let lines = marks.iter().filter_map(|(key, marked)| mark::line(key, marked));
        print(&lines.collect::<String>())?;
    } else if !marks.is_empty() {
        print(&mark::table(&marks))?;
    } else if !quiet {
        let which = which(prefix);
        say::line(format_args!("nothing{which} is recorded as done at {}", locks.store()));
    }
    Ok(End::SUCCESS)
}

/// The keys that are listed, in words.
fn which(prefix: &[u8]) -> String {
    Key::new(prefix).map_or_else(|_| String::new(), |prefix| format!(" that begins with {prefix}"))
}

/// The width of the terminal, if we print to one and it is known.
fn width() -> Option<usize> {
    let columns = tcgetwinsize(io::stdout()).ok()?.ws_col;
    Some(usize::from(columns)).filter(|columns| *columns > 0)
}
