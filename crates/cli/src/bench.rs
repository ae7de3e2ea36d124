//! `leasehold bench`: measures what locks cost in a store.

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

/// After Ctrl-C, running requests are finished first, but a store that hangs is not waited for.
const PATIENCE: Duration = Duration::from_secs(4);

/// Measures, and prints the results.
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
    let here = plan.place.connect(plan.builder(), OUTAGE_LIMIT, plan.quiet).await?;
    // A second connection, as another process would have it.
    let there = plan.place.connect(plan.builder(), OUTAGE_LIMIT, true).await?;
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
