//! `leasehold metrics`: metrics of the locks of a store, in the format of Prometheus.

use std::time::Duration;

use clap::Args;
use leasehold::{BreakRecord, Key, KeyState, Marked};

use crate::args::PrefixArgs;
use crate::exit::{End, Failure};
use crate::print::print;

/// Print figures about the locks of a store, for Prometheus
///
/// For the textfile collector of node_exporter: locks held, requests waiting, the longest of each,
/// leases broken within a day, and how long work of `every` is overdue. No figure names a key. It
/// scans the store as `leasehold ls` does.
#[derive(Args, Debug)]
#[command(
    override_usage = "leasehold metrics [OPTIONS] [PREFIX]",
    after_help = "Exit codes: `leasehold help exit-codes`.",
    after_long_help = EXAMPLE
)]
pub(crate) struct MetricsArgs {
    #[command(flatten)]
    pub(crate) which: PrefixArgs,
}

const EXAMPLE: &str = "\
If the store cannot be reached, nothing is printed and the exit code is 69.

Example: each minute, in the directory that the collector reads:
  leasehold metrics >locks.new && mv locks.new locks.prom";

pub(crate) async fn metrics(args: MetricsArgs) -> Result<End, Failure> {
    let (prefix, place) = args.which.resolve()?;
    // Its stderr becomes mail from a scheduler.
    let locks = place.look(true).await?;
    let states = locks.list(&prefix).await?;
    let marks = locks.marks(&prefix).await?;
    let breaks = locks.breaks(&prefix).await?;
    print(&text(locks.store(), &prefix, &states, &marks, &breaks))?;
    Ok(End::SUCCESS)
}

fn text(
    store: &str,
    prefix: &[u8],
    states: &[KeyState],
    marks: &[(Key, Marked)],
    breaks: &[BreakRecord],
) -> String {
    let label = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let labels = format!("store=\"{}\",prefix=\"{}\"", label(store), label(&String::from_utf8_lossy(prefix)));
    let mut text = String::new();
    let mut gauge = |name: &str, help: &str, value: f64| {
        text += &format!(
            "# HELP leasehold_store_{name} {help}\n# TYPE leasehold_store_{name} gauge\n\
             leasehold_store_{name}{{{labels}}} {value}\n"
        );
    };
    let count = |count: usize| u32::try_from(count).map_or(f64::MAX, f64::from);
    let held = states.iter().flat_map(|state| state.holders.iter().map(move |holding| (state, holding)));
    gauge("held", "Holders of locks; one that has several permits counts once.", count(held.clone().count()));
    gauge("waiting", "Requests that wait.", count(states.iter().map(|state| state.waiters.len()).sum()));
    let held_for = held.filter_map(|(state, holding)| state.held_for(holding));
    gauge("longest_held_seconds", "How long the lock that is held longest has been held.", longest(held_for));
    let waited = states.iter().flat_map(|state| &state.waiters).map(|waiter| waiter.waited);
    gauge("longest_wait_seconds", "How long the longest waiter has waited.", longest(waited));
    gauge("broken_last_day", "Locks of which a lease was broken within 24 hours.", count(breaks.len()));
    let last_break = breaks.iter().map(|broken| broken.at).max();
    let since_epoch = last_break.map_or(Duration::ZERO, |at| Duration::from_micros(at.as_micros()));
    let last_break = since_epoch.as_secs_f64();
    gauge(
        "last_break_timestamp_seconds",
        "When a lease was last broken; 0 if none was within 24 hours.",
        last_break,
    );
    gauge("marks", "Names of which once or every recorded that the work was done.", count(marks.len()));
    let overdue = marks.iter().filter_map(|(_, marked)| Some(marked.due_at()?.saturating_until(marked.now)));
    gauge(
        "longest_overdue_seconds",
        "How long the most overdue work of every has been due.",
        longest(overdue),
    );
    text
}

fn longest(times: impl Iterator<Item = Duration>) -> f64 {
    times.max().unwrap_or_default().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use leasehold::{BreakNote, Fence, Holder, HolderInfo, Label, Mark, Owner, Stamp, Waiter};

    use super::*;

    #[test]
    fn each_figure_is_a_gauge_with_the_store_as_a_label() {
        let key = Key::new("k").unwrap();
        let owner = Owner::Holder { holder: Holder::from_bits(1), label: None };
        let holding = HolderInfo::exclusive(key.clone(), owner, Fence::new(1_000_000), None);
        let waiter = |seconds| Waiter::exclusive(Holder::from_bits(2), None, Duration::from_secs(seconds));
        let state = KeyState::new(key.clone(), vec![holding], vec![waiter(5), waiter(7)]);
        let state = state.at(Stamp::from_micros(91_500_000));
        let mark = |at| Mark::new(Stamp::from_micros(at), Fence::new(1).unwrap(), Label::new("x").ok());
        let now = Stamp::from_micros(100_000_000);
        let marks = [
            (key.clone(), Marked { mark: Some(mark(40_000_000).every(Duration::from_secs(50))), now }),
            (key.clone(), Marked { mark: Some(mark(1)), now }),
        ];
        let text = text("redis://a\"b", b"", &[state], &marks, &[]);
        for (name, value) in [
            ("held", "1"),
            ("waiting", "2"),
            ("longest_held_seconds", "90.5"),
            ("longest_wait_seconds", "7"),
            ("broken_last_day", "0"),
            ("last_break_timestamp_seconds", "0"),
            ("marks", "2"),
            ("longest_overdue_seconds", "10"),
        ] {
            let line = format!("leasehold_store_{name}{{store=\"redis://a\\\"b\",prefix=\"\"}} {value}\n");
            assert!(text.contains(&line), "no {line}in {text}");
            assert!(text.contains(&format!("# TYPE leasehold_store_{name} gauge\n")), "{text}");
        }
    }

    /// Regression: the alert looked at the number of locks with a break, so it missed a second break of
    /// the same lock within a day, and one that came as another was forgotten.
    #[test]
    fn a_second_break_of_a_lock_changes_the_figure_that_the_alert_is_about() {
        let figure = |at: u64| {
            let (at, fence) = (Stamp::from_micros(at), Fence::new(1).unwrap());
            let broken = BreakRecord::new(Key::new("k").unwrap(), at, fence, None, BreakNote::default());
            text("s", b"", &[], &[], &[broken])
        };
        let line = |value: &str| {
            format!("leasehold_store_last_break_timestamp_seconds{{store=\"s\",prefix=\"\"}} {value}\n")
        };
        assert!(figure(90_500_000).contains(&line("90.5")) && figure(91_000_000).contains(&line("91")));
        let alerts = include_str!("../../../docs/alerts.yml");
        assert!(alerts.contains("delta(leasehold_store_last_break_timestamp_seconds[15m]) > 0"));
    }

    /// An alert on a metric that is not printed would never fire.
    #[test]
    fn the_page_the_alerts_and_the_dashboard_have_these_figures_and_no_others() {
        let printed = text("s", b"", &[], &[], &[]);
        let names = |text: &str| -> std::collections::BTreeSet<String> {
            let parts = text.split("leasehold_store_").skip(1);
            let name = |part: &str| {
                part.split(|c: char| !c.is_ascii_lowercase() && c != '_').next().map(str::to_owned)
            };
            parts.filter_map(name).collect()
        };
        let printed = names(&printed);
        let dashboard: serde_json::Value =
            serde_json::from_str(include_str!("../../../docs/dashboard.json")).unwrap();
        for panel in dashboard["panels"].as_array().unwrap() {
            for target in panel["targets"].as_array().unwrap() {
                let query = target["expr"].as_str().unwrap();
                assert!(!names(query).is_empty() && names(query).is_subset(&printed), "{query}");
            }
        }
        assert_eq!(names(include_str!("../../../docs/operating.md")), printed);
        for file in [include_str!("../../../docs/alerts.yml"), include_str!("../../../docs/dashboard.json")] {
            assert!(names(file).is_subset(&printed) && names(file).len() > 3, "{:?}", names(file));
        }
    }
}
