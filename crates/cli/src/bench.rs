//! `leasehold bench`: what locks cost at a store.

mod figure;
mod measure;
mod plan;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::Signal;
use tokio::time::timeout;

use self::measure::Bench;
use self::plan::Plan;
use crate::args::BenchArgs;
use crate::exit::{End, Failure};
use crate::print::print;
use crate::say;
use crate::signals::Signals;
use crate::store_location::OUTAGE_LIMIT;

/// Whoever types Ctrl-C waits for what is under way to be let go, but not for a store that hangs.
const PATIENCE: Duration = Duration::from_secs(4);

/// Measures, and prints what came of it.
///
/// # Errors
///
/// [`Failure`], when what was typed makes no sense, or the store cannot be reached, or not any more.
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
        // What fails now is no news to whoever wants no more of it.
        _ = timeout(PATIENCE, measuring) => {}
        // Twice, and nobody waits: leases end by themselves.
        () = async { signals.next().await; } => {}
    }
    Ok(End::Signal(signal.as_raw()))
}

/// Names that nobody chose may be none that the user may use.
fn hinted(failure: Failure) -> Failure {
    match failure.reason().contains("may not use a key") {
        true => failure.hint("--prefix TEXT says what the names begin with that are measured"),
        false => failure,
    }
}

async fn measure(plan: &Plan, over: &Arc<AtomicBool>) -> Result<(), Failure> {
    let here = plan.place.connect(plan.builder(), OUTAGE_LIMIT, plan.quiet).await?;
    // Another connection, as another process has it.
    let there = plan.place.connect(plan.builder(), OUTAGE_LIMIT, true).await?;
    let store = here.store().to_owned();
    if !plan.quiet {
        say::line(plan.announcement(&store));
    }
    let bench = Bench { here, there, over: over.clone() };
    let measured = bench.run(plan).await;
    for locks in [&bench.here, &bench.there] {
        // What could not be let go ends by itself, and why is said already.
        let _ = locks.close(Duration::ZERO).await;
    }
    let figures = measured.map_err(hinted)?;
    if over.load(Ordering::Relaxed) || figures.is_empty() {
        return Ok(());
    }
    print(&if plan.json { figures.lines(&store) } else { figures.table(&store) })
}
