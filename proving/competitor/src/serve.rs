//! The process around a Rust library: one runtime with one thread, like a service with few cores.

use std::future::Future;
use std::io::Write as _;
use std::time::Duration;
use std::{process, thread};

use rustix::time::{ClockId, clock_gettime};
use serde::{Serialize, de::DeserializeOwned};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::sleep;

use crate::bare::Bare;
use crate::cycle::{AnyError, Cycle};
use crate::order::{Order, Report, Times};

/// Nanoseconds on the clock that all processes of this machine share.
pub fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// A lock library, connected to a server by one client that all tasks share.
pub trait Competitor: Clone + Send + Sync + 'static {
    fn connect(url: &str) -> impl Future<Output = Result<Self, AnyError>> + Send;

    /// Acquires a lock for [`TTL`](crate::TTL), waiting for it in the library's own way, holds it
    /// and releases it. `None` if the library stopped waiting.
    fn visit(
        &self,
        key: &str,
        hold: Duration,
    ) -> impl Future<Output = Result<Option<Visit>, AnyError>> + Send;
}

/// The times between which a process considered itself the holder; nanoseconds as of [`now`].
#[derive(Clone, Copy, Debug)]
pub struct Visit {
    pub had: u64,
    pub released: u64,
}

impl Visit {
    /// Holds a lock that has just been acquired.
    pub async fn lasting(hold: Duration) -> Self {
        let had = now();
        if !hold.is_zero() {
            sleep(hold).await;
        }
        Self { had, released: now() }
    }
}

/// Carries out the orders on standard input until it ends.
pub fn serve<C: Competitor>(url: &str) -> ! {
    let connect = async || Ok((C::connect(url).await?, Bare::connect(url).await?));
    let obey = async |(competitor, bare): &mut (C, Bare), order| obey(order, competitor, bare).await;
    follow_orders(connect, obey, &Report::Ready, |why| Report::Failed { why })
}

/// Reports that the worker is ready, and lets it obey each line on standard input until it ends.
pub fn follow_orders<W, O: DeserializeOwned, R: Serialize>(
    connect: impl AsyncFnOnce() -> Result<W, AnyError>,
    obey: impl AsyncFn(&mut W, O) -> Result<R, AnyError>,
    ready: &R,
    failed: fn(String) -> R,
) -> ! {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let served: Result<(), AnyError> = runtime.block_on(async {
        let mut worker = connect().await?;
        let mut orders = orders();
        answer(ready);
        while let Some(order) = orders.recv().await {
            let report = obey(&mut worker, serde_json::from_str(&order)?).await;
            answer(&report.unwrap_or_else(|why| failed(why.to_string())));
        }
        Ok(())
    });
    if let Err(why) = served {
        answer(&failed(why.to_string()));
    }
    process::exit(0);
}

/// The lines on standard input. This process exits when there are no more.
fn orders() -> UnboundedReceiver<String> {
    let (sender, orders) = unbounded_channel();
    thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
        // The process that started this one is gone.
        process::exit(0);
    });
    orders
}

async fn obey<C: Competitor>(order: Order, competitor: &C, bare: &Bare) -> Result<Report, AnyError> {
    match order {
        Order::Cycle { tasks, millis } => cycles(&Alone(competitor.clone()), tasks, millis).await,
        Order::Bare { tasks, millis } => cycles(bare, tasks, millis).await,
        Order::Turns { key, hold, think, millis } => {
            let [hold, think] = [hold, think].map(Duration::from_millis);
            Ok(Report::Turns { turns: turns(competitor, &key, hold, think, millis).await? })
        }
    }
}

async fn turns<C: Competitor>(
    competitor: &C,
    key: &str,
    hold: Duration,
    think: Duration,
    millis: u64,
) -> Result<Vec<Times>, AnyError> {
    let end = now() + millis * 1_000_000;
    let mut turns = Vec::new();
    while now() < end {
        let asked = now();
        let visit = loop {
            if let Some(visit) = competitor.visit(key, hold).await? {
                break visit;
            }
        };
        turns.push([asked, visit.had, visit.released]);
        sleep(think).await;
    }
    Ok(turns)
}

#[derive(Clone)]
struct Alone<C>(C);

impl<C: Competitor> Cycle for Alone<C> {
    async fn cycle(&self, key: &str, _serial: u64) -> Result<(), AnyError> {
        match self.0.visit(key, Duration::ZERO).await? {
            Some(_) => Ok(()),
            None => Err(format!("gave up waiting for {key}, which nobody else has").into()),
        }
    }
}

async fn cycles<C: Cycle>(what: &C, tasks: usize, millis: u64) -> Result<Report, AnyError> {
    let begun = now();
    let end = begun + millis * 1_000_000;
    let running: Vec<_> = (0..tasks as u64)
        .map(|task| {
            let what = what.clone();
            tokio::spawn(async move {
                let (key, mut count) = (format!("own:{}:{task}", process::id()), 0);
                while now() < end {
                    what.cycle(&key, task << 32 | count).await?;
                    count += 1;
                }
                Ok::<_, AnyError>(count)
            })
        })
        .collect();
    let mut count = 0;
    for task in running {
        count += task.await??;
    }
    Ok(Report::Cycles { count, nanos: now() - begun })
}

/// Writes a report to standard output, as a line of JSON. Panics if it is not plain data.
pub fn answer(report: &impl Serialize) {
    let line = serde_json::to_string(report).expect("a report is plain data");
    let mut out = std::io::stdout().lock();
    // If this fails, the process that reads it is gone.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
