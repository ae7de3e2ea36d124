//! `leasehold bench`: measures what locks cost in a store.

mod figure;
mod measure;
mod plan;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use rustix::process::Signal;
use tokio::time::timeout;

use self::measure::Bench;
use self::plan::Plan;
use crate::args::StoreArgs;
use crate::exit::{End, Failure};
use crate::print::print;
use crate::say;
use crate::signals::Signals;
use crate::store_location::OUTAGE_LIMIT;

/// Measure the cost of locks in a store, next to a minimal loop
///
/// Measures the time of a round trip, how often per second a lock is acquired and released by one
/// task and by several at once, and the time from a release until the next waiter has the lock, on
/// another connection. The minimal loop alternates with that on the same connection: SET NX PX and
/// a compare-and-delete on a server, two transactions that write one row each in a file. It has no
/// fence, no queue and no renewal; the ratio shows what those cost.
///
/// It uses key names of its own. The last fence of each stays for ten minutes, as for every lock;
/// everything else is gone when it ends, also by Ctrl-C, and a moment later if it is killed. Other
/// users of the store are slowed down meanwhile.
#[derive(Args, Debug)]
#[command(
    override_usage = "leasehold bench [OPTIONS] [URL]...",
    after_help = "Exit codes: `leasehold help exit-codes`.",
    after_long_help = EXAMPLE
)]
pub(crate) struct BenchArgs {
    /// About how long to measure
    ///
    /// 5 s by default, from 1 s to 10 min. A distant store gets the time for three rounds in any
    /// case.
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    pub(crate) seconds: Option<String>,

    /// How many tasks acquire and release at once [default: 16]
    ///
    /// Each uses its own key. One task alone is measured, too.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) tasks: Option<String>,

    /// The beginning of the key names [default: leasehold-bench:]
    ///
    /// For a user who may only use certain keys. It is followed by digits that no other bench uses.
    #[arg(long, value_name = "TEXT")]
    pub(crate) prefix: Option<String>,

    /// Print JSON, one object per line
    ///
    /// One for each figure: figure ("round-trip-rested", "round-trip", "pairs" or
    /// "hand-off"), of ("leasehold", "baseline" or "ratio"), tasks, unit ("us",
    /// "per-second" or null), median, lowest and highest of the rounds, rounds, and store.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) store: StoreArgs,

    /// Do not print what is about to be measured
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// The stores, as for --store
    #[arg(value_name = "URL", num_args = 0..)]
    pub(crate) urls: Vec<String>,
}

const EXAMPLE: &str = "\
Each figure is the median of several rounds, with the lowest and the highest. A round measures everything once. \
Every second round has the reverse order, so that a change of the load affects both sides of a ratio.

A round trip at rest follows two milliseconds of silence, as in a program that takes a lock now and then. \
A lock costs two round trips, like a baseline pair.

Example: what do locks cost on this server, and in this file?
  leasehold bench redis://10.0.0.5
  leasehold bench --store file:/var/lib/app/leases.db";

/// After Ctrl-C, running requests are finished first, but a store that hangs is not waited for.
const PATIENCE: Duration = Duration::from_secs(4);

pub(crate) async fn bench(args: BenchArgs) -> Result<End, Failure> {
    let plan = Plan::of(args)?;
    // Before there are other threads.
    let mut signals = Signals::catch()?;
    let over = Arc::new(AtomicBool::new(false));
    let measuring = measure(&plan, &over);
    tokio::pin!(measuring);
    let signal: Signal = tokio::select! {
        biased;
        end = &mut measuring => return end.map(|()| End::SUCCESS),
        signal = signals.next() => signal,
    };
    over.store(true, Ordering::Relaxed);
    tokio::select! {
        // After an interruption, nobody wants to know about further failures.
        _ = timeout(PATIENCE, measuring) => {}
        // A second signal ends the wait: leases expire on their own.
        () = async { signals.next().await; } => {}
    }
    Ok(End::Signal(signal.as_raw()))
}

/// Adds a hint: the user may not have permission for generated names.
fn hinted(failure: Failure) -> Failure {
    match failure.reason().contains("may not use a key") {
        true => failure.hint("--prefix TEXT says what the names begin with that are measured"),
        false => failure,
    }
}

async fn measure(plan: &Plan, over: &Arc<AtomicBool>) -> Result<(), Failure> {
    let limit = plan.place.outage_limit.unwrap_or(OUTAGE_LIMIT);
    let here = plan.place.connect(plan.builder(), limit, plan.quiet).await?;
    // A second connection, as another process would have it.
    let there = plan.place.connect(plan.builder(), limit, true).await?;
    let store = here.store().to_owned();
    if !plan.quiet {
        say::line(plan.announcement(&store));
    }
    let bench = Bench { here, there, over: over.clone() };
    let measured = bench.run(plan).await;
    for locks in [&bench.here, &bench.there] {
        // Locks that could not be released expire, and the reason was already printed.
        let _ = locks.close(Duration::ZERO).await;
    }
    let figures = measured.map_err(hinted)?;
    if over.load(Ordering::Relaxed) || figures.is_empty() {
        return Ok(());
    }
    print(&if plan.json { figures.lines(&store) } else { figures.table(&store) })
}
