//! Tasks that each make one cycle after the other, for several competitors in turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use leasehold::Locks;
use tokio::task::JoinSet;

use crate::AnyError;
use crate::bare::{self, Bare};
use crate::bare_sql::{BareSql, Strategy};
use crate::clock;
use crate::sample::Sample;
use crate::settings::Settings;

/// The numbers of tasks that make cycles at the same time.
pub(super) const TASKS: [(usize, &str); 4] =
    [(1, "1 task"), (16, "16 tasks"), (64, "64 tasks"), (256, "256 tasks")];

/// Leasehold, or a loop that it is compared with. Its clones share its connections.
#[derive(Clone)]
pub(super) struct Competitor {
    pub(super) name: &'static str,
    pub(super) how: How,
}

/// How a competitor acquires a key and releases it.
#[derive(Clone)]
pub(super) enum How {
    Ours(Locks),
    /// Leasehold, each time with a key that was never used.
    OursAfresh(Locks),
    Pair(Bare),
    /// A bare pair at each of these servers at once.
    PairAtAll(Arc<[Bare]>),
    Sql(Arc<BareSql>, Strategy),
}

impl Competitor {
    /// A task's key. Each competitor has its own: Leasehold's last releases must not delay a bare loop.
    fn key(&self, task: usize) -> String {
        format!("{}:{task}", self.name)
    }

    /// Acquires a key and releases it. No two calls have the same number.
    async fn cycle(&self, key: &str, serial: u64) -> Result<(), AnyError> {
        let mutex = match &self.how {
            How::Ours(locks) => locks.mutex(key),
            How::OursAfresh(locks) => locks.mutex(format!("{key}:{serial}")),
            How::Pair(bare) => return bare.cycle(key, serial).await,
            How::PairAtAll(members) => return bare::cycle_at_all(members, key, serial).await,
            How::Sql(bare, strategy) => return bare.cycle(*strategy, key, serial).await,
        };
        Ok(mutex.lock().await?.release().await.map(drop)?)
    }
}

#[derive(Default)]
pub(super) struct Laps {
    /// Thousands of cycles per second.
    pub(super) speed: Sample,
    /// µs of this process's processor time per cycle.
    pub(super) processor: Sample,
}

/// Measures all competitors in turn: each is first, and last, in turn.
pub(super) async fn laps(
    settings: &Settings,
    tasks: usize,
    field: &[Competitor],
) -> Result<Vec<Laps>, AnyError> {
    let mut laps: Vec<_> = field.iter().map(|_| Laps::default()).collect();
    for repetition in 0..=settings.repetitions() {
        for n in 0..field.len() {
            let n = (n + repetition) % field.len();
            let (speed, processor) = closed_loop(settings, tasks, &field[n]).await?;
            // The first repetition is a warm-up for connections, scripts and the servers' memory.
            if repetition > 0 {
                laps[n].speed.push(speed);
                laps[n].processor.push(processor);
            }
        }
    }
    Ok(laps)
}

/// Thousands of cycles per second, and µs of processor time per cycle.
async fn closed_loop(
    settings: &Settings,
    tasks: usize,
    competitor: &Competitor,
) -> Result<(f64, f64), AnyError> {
    static SERIAL: AtomicU64 = AtomicU64::new(0);
    let (begun, before) = (clock::now(), clock::processor());
    let end = begun + u64::try_from(settings.slice().as_nanos())?;
    let mut running = JoinSet::new();
    for task in 0..tasks {
        let (competitor, key) = (competitor.clone(), competitor.key(task));
        running.spawn(async move {
            let mut cycles = 0_u32;
            loop {
                competitor.cycle(&key, SERIAL.fetch_add(1, Ordering::Relaxed)).await?;
                cycles += 1;
                if clock::now() >= end {
                    return Ok::<_, AnyError>(cycles);
                }
            }
        });
    }
    let mut cycles = 0.0;
    while let Some(task) = running.join_next().await {
        cycles += f64::from(task??);
    }
    let (took, used) = ((clock::now() - begun) as f64, (clock::processor() - before) as f64);
    Ok((cycles * 1e6 / took, used / cycles / 1e3))
}
