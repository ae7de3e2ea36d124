//! `leasehold ls`: lists the locks that are held or waited for.

use std::io;

use leasehold::{Key, Locks};
use rustix::termios::tcgetwinsize;

use crate::args::LsArgs;
use crate::exit::{End, Failure};
use crate::keys::beginning;
use crate::lock_json::LockJson;
use crate::mark;
use crate::options::time_of;
use crate::print::print;
use crate::say;
use crate::store_location::StoreLocation;
use crate::table::table;
use crate::time;

/// Lists the locks.
pub(crate) async fn ls(args: LsArgs) -> Result<End, Failure> {
    // That is a mistake, or a variable that was not set.
    if args.prefixes.iter().any(|prefix| prefix.is_empty()) {
        let line = "the prefix is empty: name what the keys begin with, or list all of them";
        return Err(Failure::usage(line).hint("leasehold ls --all"));
    }
    let prefix = beginning(args.prefixes, args.place.naming)?;
    let least = time_of("--held-for", args.held_for)?;
    let place = StoreLocation::of(args.place.store)?;
    let locks = place.look(args.quiet).await?;
    if args.verbose {
        say::line(format_args!("looking at {}", locks.store()));
    }
    if args.marks {
        return marks(&locks, &prefix, args.json, args.quiet).await;
    }
    let mut states = locks.list(&prefix).await?;
    if let Some(least) = least {
        states.retain_mut(|state| {
            let held_for: Vec<_> = state.holders.iter().map(|holding| state.held_for(holding)).collect();
            let mut held_for = held_for.into_iter();
            state.holders.retain(|_| held_for.next().flatten() >= Some(least));
            !state.holders.is_empty()
        });
    }
    if states.is_empty() {
        let which =
            Key::new(&prefix).map_or_else(|_| String::new(), |prefix| format!(" that begins with {prefix}"));
        let what = least.map_or_else(
            || "is held or waited for".into(),
            |least| format!("has been held for {}", time::shown(least)),
        );
        if !args.quiet {
            say::line(format_args!("no lock{which} {what} at {}", locks.store()));
        }
        return Ok(End::SUCCESS);
    }
    if args.json {
        print(&states.iter().map(LockJson::line).collect::<String>())?;
    } else {
        print(&table(&states, width()))?;
    }
    Ok(if least.is_some() { End::FOUND } else { End::SUCCESS })
}

/// Lists the marks.
async fn marks(locks: &Locks, prefix: &[u8], json: bool, quiet: bool) -> Result<End, Failure> {
    let marks = locks.marks(prefix).await?;
    if json {
        let lines = marks.iter().filter_map(|(key, marked)| Some(mark::line(key, marked.mark.as_ref()?)));
        print(&lines.collect::<String>())?;
    } else if !marks.is_empty() {
        print(&mark::table(&marks))?;
    } else if !quiet {
        say::line(format_args!("nothing is noted as done at {}", locks.store()));
    }
    Ok(End::SUCCESS)
}

/// The width of the terminal, if we print to one and it is known.
fn width() -> Option<usize> {
    let columns = tcgetwinsize(io::stdout()).ok()?.ws_col;
    Some(usize::from(columns)).filter(|columns| *columns > 0)
}
