//! A process's actions: it acquires, works under and releases locks as the dice choose.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leasehold::{Guard, LockError, Locks, Renewal};
use leasehold_core::Runtime;

use crate::dice::Dice;
use crate::machine::Machine;
use crate::plan::{FaultKind, Plan};
use crate::world::World;

/// One task of a process.
pub(crate) struct Worker {
    pub(crate) world: Arc<World>,
    pub(crate) machine: Arc<Machine>,
    pub(crate) locks: Locks,
    pub(crate) plan: Plan,
    pub(crate) number: usize,
    pub(crate) dice: Dice,
    pub(crate) done: Arc<AtomicBool>,
}

/// One lock to acquire, and how.
struct Job {
    label: String,
    keys: Vec<&'static str>,
    ttl: Duration,
    renewal: Renewal,
    hold: Duration,
    within: Option<Duration>,
    cancelled_after: Option<Duration>,
    renewed_after: Option<Duration>,
    ending: Ending,
}

enum Ending {
    Released,
    Dropped,
    /// The worker keeps the guard after the lease is lost.
    KeptOn,
}

const KEYS: [&str; 2] = ["a", "b"];

impl Worker {
    pub(crate) async fn work(mut self) {
        for number in 0..self.plan.jobs {
            let think = self.dice.millis(0..900);
            self.rest(think).await;
            let job = self.draw(number);
            self.take(&job).await;
            self.world.watch().is_over(&job.label, self.world.executor.now());
        }
        self.done.store(true, Ordering::Relaxed);
    }

    fn draw(&mut self, number: usize) -> Job {
        let dice = &mut self.dice;
        let keys = match dice.one_of(4) {
            _ if self.plan.keys == 1 => vec![KEYS[0]],
            0 => KEYS.to_vec(),
            n => vec![KEYS[n % 2]],
        };
        let hold = match dice.one_of(6) {
            0 => self.plan.ttl + dice.millis(0..2_000),
            1 => dice.millis(200..1_500),
            _ => dice.millis(1..150),
        };
        // For long work, renewal is mostly off, so that many leases end while in use.
        let renewal = match dice.one_of(5) {
            0 => Renewal::Off,
            1 | 2 if hold > self.plan.ttl => Renewal::Off,
            3 => Renewal::AtMost(self.plan.ttl + dice.millis(0..1_500)),
            _ => Renewal::Automatic,
        };
        let within = match dice.one_of(8) {
            0 => Some(Duration::ZERO),
            1 => Some(dice.millis(50..3_000)),
            _ => None,
        };
        let ending = match dice.one_of(4) {
            0 => Ending::Dropped,
            1 => Ending::KeptOn,
            _ => Ending::Released,
        };
        Job {
            label: format!("p{}t{}j{number}", self.machine.number, self.number),
            keys,
            ttl: self.plan.ttl,
            renewal,
            hold,
            within,
            cancelled_after: dice.percent(12).then(|| dice.millis(0..1_000)),
            renewed_after: dice.percent(15).then(|| dice.millis(1..600)),
            ending,
        }
    }

    async fn take(&mut self, job: &Job) {
        let mutex = self.locks.mutex_all(job.keys.iter().copied());
        let mutex = mutex.ttl(job.ttl).label(&job.label).renewal(job.renewal);
        let now = self.world.executor.now();
        self.world.watch().begins(&job.label, self.machine.number, now);
        loop {
            let asked = self.world.executor.now();
            let request = match job.within {
                Some(within) => mutex.lock().within(within),
                None => mutex.lock(),
            };
            let cancelled_after = job.cancelled_after.unwrap_or(Duration::from_secs(1 << 30));
            let taken = tokio::select! {
                biased;
                taken = request.into_future() => taken,
                () = self.rest(cancelled_after) => {
                    self.world.happened(FaultKind::Cancelled);
                    return self.say(job, || "cancelled".into());
                }
            };
            match taken {
                Ok(guard) => return self.hold(job, guard, asked).await,
                Err(error) => {
                    self.say(job, || error.to_string());
                    match error {
                        LockError::TimedOut { .. } => return,
                        LockError::Unreachable { .. } | LockError::NoQuorum { .. } => {
                            if job.within.is_some() {
                                return;
                            }
                        }
                        other => return self.world.watch().fail(format!("{}: {other}", job.label)),
                    }
                }
            }
            let rest = self.dice.millis(100..500);
            self.rest(rest).await;
        }
    }

    async fn hold(&mut self, job: &Job, guard: Guard, asked: u64) {
        let told = Arc::new(AtomicBool::new(false));
        let (lost, tell) = (guard.lost(), told.clone());
        self.machine.spawn(Box::pin(async move {
            lost.await;
            tell.store(true, Ordering::Relaxed);
        }));
        let now = self.world.executor.now();
        let number = self.world.watch().granted(&self.machine, guard.held(), told, asked, now);
        self.say(job, || format!("GRANTED {} for {:?}", guard.fence(), guard.remaining()));
        let longer = job.ttl + Duration::from_secs(1);
        let work = async {
            if let Some(after) = job.renewed_after.filter(|after| *after < job.hold) {
                self.rest(after).await;
                let renewed = guard.renew(longer.min(self.plan.max_ttl)).await;
                self.say(job, || format!("renewed by the holder: {renewed:?}"));
                self.rest(job.hold - after).await;
            } else {
                self.rest(job.hold).await;
            }
        };
        tokio::select! {
            biased;
            why = guard.lost() => self.say(job, || format!("LOST: {why}")),
            () = work => {}
        }
        if matches!(job.ending, Ending::KeptOn) && !guard.is_held() {
            self.rest(job.hold).await;
        }
        self.world.watch().retires(number);
        if matches!(job.ending, Ending::Dropped) {
            drop(guard);
            return self.say(job, || "dropped".into());
        }
        let released = guard.release().await;
        self.say(job, || format!("released: {released:?}"));
    }

    fn rest(&self, time: Duration) -> impl Future<Output = ()> + use<> {
        self.machine.sleep_until(self.machine.now() + time)
    }

    fn say(&self, job: &Job, what: impl FnOnce() -> String) {
        self.world.trace.say(self.world.executor.now(), || format!("{}  {}", job.label, what()));
    }
}
