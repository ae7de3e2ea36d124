//! `leasehold show`: shows the holders of a lock and its waiters.

use clap::Args;
use leasehold::{BreakRecord, HolderInfo, KeyState, Marked, Mode, Owner};

use crate::args::KeyArgs;
use crate::exit::{End, Failure};
use crate::lock_json::{LockJson, granted_at, mode, name_of};
use crate::mark;
use crate::print::print;
use crate::say::{self, plain};
use crate::time;

/// Show who holds a lock, and who waits for it
///
/// Also shows when `once` or `every` last ran under this name, who ran it, and when it is due; and
/// for a day, which lease was broken, by whom and why.
///
/// The exit code is 0 if the lock is held and 1 if it is free. Do not ask first and acquire
/// afterwards, because a moment later the answer may differ: `leasehold run --try` does both at
/// once.
#[derive(Args, Debug)]
#[command(
    override_usage = "leasehold show [OPTIONS] KEY",
    after_help = "Exit codes: 0 held, 1 free; `leasehold help exit-codes`.",
    after_long_help = EXAMPLE
)]
pub(crate) struct ShowArgs {
    /// Print one JSON object
    ///
    /// key, held, holders, waiters, mark and last_break. A holder has kind: "lease" (holder,
    /// label), "foreign" (value: another program's lock) or "not_a_lock"; and mode, fence,
    /// granted_at and held_ms (null: not known) and remaining_ms (null: it never ends). granted_at
    /// is in milliseconds since 1970 by the store's clock, and held_ms is the time since then. A
    /// waiter has place, holder, label, mode and waited_ms. A mode is "exclusive", "shared" or
    /// "permits", the last with permits and of: how many of how many. mark is the record of
    /// `once` or `every`, or null: begun_at, by, fence, period_ms and due_at (null: once, ever).
    /// last_break is the last lease that was broken within a day, or null: broken_at, fence,
    /// held_by, by and reason.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) which: KeyArgs,

    /// Print which store is used
    #[arg(short, long)]
    pub(crate) verbose: bool,
}

const EXAMPLE: &str = "\
Exit codes: 0 held, 1 free, 65 the key contains something that is not a lock; `leasehold help exit-codes`.

Example: who is deploying?
  leasehold show deploy";

pub(crate) async fn show(args: ShowArgs) -> Result<End, Failure> {
    let quiet = args.which.quiet;
    let (key, place) = args.which.resolve()?;
    let locks = place.look(quiet).await?;
    if args.verbose {
        say::line(format_args!("{key}: looking at {}", locks.store()));
    }
    let state = locks.inspect(key.as_bytes()).await?;
    if !quiet {
        // Unreadable marks or records must not keep anybody from seeing the holder of the lock.
        let marked = locks.marked(key.as_bytes()).await.inspect_err(|error| say::line(error)).ok();
        let broken =
            locks.last_break(key.as_bytes()).await.inspect_err(|error| say::line(error)).ok().flatten();
        print(&if args.json {
            LockJson::line_with(&state, marked.as_ref(), broken.as_ref())
        } else {
            text(&state) + &remembered(marked.as_ref(), broken.as_ref())
        })?;
    }
    if state.holders.iter().any(|holding| holding.owner == Owner::NotALock) {
        let failure = Failure::new(
            End::NOT_A_LOCK,
            format!(
                "{key}: the store has something at this key that is not a lock: name another, or delete it there"
            ),
        );
        return Err(if quiet { failure.silent() } else { failure });
    }
    Ok(if state.holders.is_empty() { End::FREE } else { End::SUCCESS })
}

/// The mark and the break record of the key: one line for each fact.
pub(crate) fn remembered(marked: Option<&Marked>, broken: Option<&BreakRecord>) -> String {
    let mut text = String::new();
    if let Some((marked, mark)) = marked.and_then(|marked| Some((marked, marked.mark.as_ref()?))) {
        text.push_str(&format!("done     {}, fence {}\n", mark::begun(mark), mark.fence));
        text.push_str(&format!("due      {}\n", mark::due(marked)));
    }
    if let Some(broken) = broken {
        text.push_str(&format!("broken   {}\n", mark::broken(broken)));
    }
    text
}

/// The output for people: one line for each fact, and one for each waiter.
pub(crate) fn text(state: &KeyState) -> String {
    let mut text = String::new();
    let mut fact = |name: &str, value: &str| {
        text += &format!("{name:7}  {value}\n");
    };
    fact("key", &plain(&state.key.to_string()));
    if state.holders.is_empty() && state.damage.is_none() {
        fact("held by", "nobody");
    }
    if let Some(damage) = &state.damage {
        fact("damaged", &plain(damage));
    }
    for holding in &state.holders {
        fact("held by", &plain(&holding.owner.to_string()));
        fact("mode", &mode(holding.mode));
        if let Some(fence) = holding.fence {
            fact("fence", &fence.to_string());
        }
        let held_for = state.held_for(holding);
        if let (Some(since), Some(held_for)) = (granted_at(holding, held_for), held_for) {
            fact("since", &format!("{}, for {}", time::moment(since), time::shown(held_for)));
        }
        fact("left", &left(holding));
    }
    fact("waiting", &state.waiters.len().to_string());
    let width = state.waiters.len().to_string().len();
    for (waiter, place) in state.waiters.iter().zip(1..) {
        let who = plain(&name_of(waiter));
        let waited = time::shown(waiter.waited);
        let wants = match waiter.mode {
            Mode::Exclusive => String::new(),
            wants => format!(", {}", mode(wants)),
        };
        text += &format!("  {place:width$}  {who}{wants}, for {waited}\n");
    }
    text
}

fn left(holding: &HolderInfo) -> String {
    match (holding.remaining, &holding.owner) {
        (Some(left), Owner::Holder { .. }) => format!("{}, unless it is renewed", time::shown(left)),
        (left, _) => time::left(left),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use leasehold::{Fence, Holder, Key, Label, Stamp, Waiter};

    use super::*;

    fn waiter(bits: u128, label: Option<&str>, seconds: u64) -> Waiter {
        let label = label.map(|label| Label::new(label).unwrap());
        Waiter::exclusive(Holder::from_bits(bits << 96), label, Duration::from_secs(seconds))
    }

    #[test]
    fn the_text_shows_the_holder_and_then_the_queue_in_order() {
        let key = Key::new("deploy\n").unwrap();
        let owner = Owner::Holder { holder: Holder::from_bits(1 << 96), label: Label::new("web-3").ok() };
        let left = Some(Duration::from_millis(28_300));
        let holding = HolderInfo::exclusive(key.clone(), owner, Fence::new(1_763_713_011_000_000), left);
        let mut line = vec![waiter(2, Some("web\u{202e}4"), 125), waiter(3, None, 9)];
        line.extend((4..12).map(|bits| waiter(bits, None, 0)));
        let clock = Stamp::from_micros(1_763_713_011_000_000 + 3_725_000_000);
        let text = text(&KeyState::new(key, vec![holding], line).at(clock));
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            lines[..9],
            [
                "key      deploy\\n",
                "held by  web-3 (00000001)",
                "mode     exclusive",
                "fence    1763713011000000",
                "since    2025-11-21T08:16:51Z, for 1h02m",
                "left     28s, unless it is renewed",
                "waiting  10",
                "   1  web\\u{202e}4 (00000002), for 2m05s",
                "   2  00000003, for 9.0s",
            ]
        );
        assert_eq!(lines[lines.len() - 1], "  10  0000000b, for 0ms");
    }
}
