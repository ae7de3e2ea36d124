//! The work of a worker's tasks: every kind of lock, requested in every way.

use std::{
    future::IntoFuture as _,
    pin::Pin,
    process::{self, ExitCode},
    time::Duration,
};

use leasehold::{
    BeginError, BreakError, Fence, Guard, HolderInfo, InspectError, JobGuard, LockError, Locks, Owner,
    Renewal,
};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng, seq::IndexedRandom as _};
use tokio::time::sleep;

use crate::{
    Plan,
    history::{EventKind, now},
    visit::{TaskHistory, chance, unless_dropped},
    wish::{Wanted, Wish},
    worker::live,
};

pub(crate) const MUTEX: &str = "mutex";
/// Two keys that are acquired alone and together; in a cluster, they share a slot.
pub(crate) const TWO: [&str; 2] = ["{two}a", "{two}b"];
/// The key of a reader-writer lock.
pub(crate) const DOC: &str = "doc";
/// The key of a semaphore with five permits.
pub(crate) const GPUS: &str = "gpus";
/// The key of an election.
pub(crate) const CHIEF: &str = "chief";
/// The key of a job that is done once in a [`PERIOD`].
pub(crate) const EVERY: &str = "every";
/// The prefix of the keys of jobs that are done once, ever.
pub(crate) const ONCE: &str = "once:";

/// The shortest period allowed.
pub(crate) const PERIOD: Duration = Duration::from_secs(1);

/// How long all workers want the same `once` job before they want the next.
const NEXT_ONCE: u64 = 700_000_000;

/// The first word of an answer that no fault explains.
pub(crate) const UNEXPECTED: &str = "unexpected";

/// The TTL of a lease that is not renewed.
const SHORT: Duration = Duration::from_millis(300);

/// The pause before an operator breaks a lease that it saw.
const THINKS: Duration = Duration::from_millis(50);

/// The pause between two requests if the store did not answer.
const REST: Duration = Duration::from_millis(20);

type Answer = Result<Option<Guard>, LockError>;

/// The main function of a worker, which gets a seed and its plan as arguments.
#[must_use]
pub(crate) fn run(words: &[String]) -> ExitCode {
    let parsed = words.split_first().and_then(|(seed, plan)| seed.parse::<u64>().ok().zip(Plan::parse(plan)));
    let Some((seed, plan)) = parsed else {
        eprintln!("a worker is started by a soak, with a seed and a plan");
        return ExitCode::FAILURE;
    };
    live(&plan, |task_history, locks| {
        let dice = StdRng::seed_from_u64(seed << 8 | u64::from(task_history.task));
        Workload { task_history, locks: locks.clone(), dice, plan: plan.clone() }.go_round()
    })
}

struct Workload {
    task_history: TaskHistory,
    locks: Locks,
    dice: StdRng,
    plan: Plan,
}

impl Workload {
    async fn go_round(mut self) {
        loop {
            sleep(self.plan.think.mul_f64(self.dice.random())).await;
            match self.dice.random_range(0..100) {
                0..5 => self.once().await,
                5..10 => self.every().await,
                10..12 => self.breaks_one().await,
                _ => self.lock().await,
            }
        }
    }

    fn wish(&mut self) -> Wish {
        let alone = |keys: &[&str]| (Wanted::Alone, keys.iter().map(|&key| key.to_owned()).collect());
        let [a, b] = TWO;
        let (mode, keys) = match self.dice.random_range(0..12) {
            0..3 => alone(&[MUTEX]),
            3 => alone(&[CHIEF]),
            4 => alone(&[a]),
            5 => alone(&[b]),
            6 => alone(&if self.dice.random() { [a, b] } else { [b, a] }),
            7..9 => (Wanted::Read, vec![DOC.to_owned()]),
            9 => alone(&[DOC]),
            // A quorum has no semaphores.
            _ if self.plan.url.contains(' ') => alone(&[MUTEX]),
            _ => (Wanted::Permits(self.dice.random_range(1..=4), 5), vec![GPUS.to_owned()]),
        };
        Wish { mode, keys }
    }

    async fn lock(&mut self) {
        let wish = self.wish();
        self.task_history.note(EventKind::AsksFor(wish.clone()));
        let request = self.request(&wish);
        match unless_dropped(request, &self.plan, &mut self.dice).await {
            None => self.task_history.note(EventKind::Cancelled),
            Some(Ok(Some(guard))) => self.hold(guard).await,
            Some(Ok(None)) => self.task_history.note(EventKind::Failed("held".to_owned())),
            Some(Err(error)) => self.refused(&error).await,
        }
    }

    /// Requests the lock in one of three ways: once, with a time limit, or without one.
    fn request(&mut self, wish: &Wish) -> Pin<Box<dyn Future<Output = Answer> + Send>> {
        let (locks, wish) = (self.locks.clone(), wish.clone());
        if self.chance(15) {
            return Box::pin(async move {
                match wish.mode {
                    Wanted::Alone => locks.mutex_all(&wish.keys).try_lock().await,
                    Wanted::Read => Ok(locks.rw_lock_all(&wish.keys).try_read().await?.map(Guard::from)),
                    Wanted::Permits(weight, of) => {
                        let permits = locks.semaphore_all(&wish.keys, of);
                        Ok(permits.try_acquire_many(weight).await?.map(Guard::from))
                    }
                }
            });
        }
        let request = match &*wish.keys {
            [key] if key == CHIEF => locks.election(key).candidate(&process::id().to_string()).stand(),
            // Not renewed, so that it expires before a long hold ends.
            [key] if key == MUTEX && self.chance(20) => {
                locks.mutex(key).ttl(SHORT).renewal(Renewal::Off).lock()
            }
            _ => wish.request(&locks),
        };
        let mut request = self.task_history.stands(request);
        if self.chance(25) {
            request = request.within(Duration::from_millis(self.dice.random_range(1..500)));
        }
        Box::pin(async move {
            match request.into_future().await {
                Ok(guard) => Ok(Some(guard)),
                Err(LockError::TimedOut { .. }) => Ok(None),
                Err(error) => Err(error),
            }
        })
    }

    async fn hold(&mut self, guard: Guard) {
        if self.chance(3) {
            // Renewed or not: the history has what the guard considers to be its end.
            let _ = guard.renew(self.plan.ttl).await;
        }
        self.task_history.has(guard, &self.plan, &mut self.dice).await;
    }

    async fn once(&mut self) {
        let name = format!("{ONCE}{}", now() / NEXT_ONCE);
        let once = self.locks.once(&name).within(Duration::from_secs(2));
        self.asks_for(&name);
        self.begun(once.begin().await).await;
    }

    async fn every(&mut self) {
        let every = self.locks.every(PERIOD, EVERY);
        self.asks_for(EVERY);
        self.begun(every.begin().await).await;
    }

    async fn begun<NotNow>(&mut self, begun: Result<Result<JobGuard, NotNow>, BeginError>) {
        match begun {
            Ok(Ok(job)) => self.do_it(job).await,
            Ok(Err(_)) => self.task_history.note(EventKind::Cancelled),
            Err(BeginError::NotTaken(LockError::TimedOut { .. })) => {
                self.task_history.note(EventKind::Failed("held".to_owned()));
            }
            Err(BeginError::NotTaken(error)) => self.refused(&error).await,
            Err(BeginError::NotKnown(InspectError::Store(fault))) => {
                self.task_history.note(EventKind::Failed(fault.to_string()));
                sleep(REST).await;
            }
            Err(other) => self.task_history.note(EventKind::Failed(format!("{UNEXPECTED}: {other}"))),
        }
    }

    async fn do_it(&mut self, job: JobGuard) {
        self.task_history.holds(job.guard(), self.plan.hold).await;
        // Some of the jobs fail, and are left to the next worker.
        if !self.chance(20) && job.mark().await.is_ok() {
            self.task_history.note(EventKind::Done);
        }
        self.task_history.lets_go(job.into_guard(), false).await;
    }

    /// Acts like an operator who finds a lock held, and may think before breaking it.
    async fn breaks_one(&mut self) {
        let Some(&key) = [MUTEX, TWO[0], TWO[1], DOC, GPUS, CHIEF, EVERY].choose(&mut self.dice) else {
            return;
        };
        let Ok(state) = self.locks.inspect(key).await else { return sleep(REST).await };
        let Some((fence, holder)) = state.holders.choose(&mut self.dice).and_then(named) else { return };
        if self.chance(30) {
            sleep(THINKS.mul_f64(self.dice.random())).await;
        }
        self.task_history.note(EventKind::Breaks { fence: fence.get(), holder, key: key.to_owned() });
        self.task_history.note(match self.locks.break_lease(key, fence).await {
            Ok(holding) if named(&holding) == Some((fence, holder)) => EventKind::Broke,
            Ok(other) => EventKind::Failed(format!("{UNEXPECTED}: broke another: {other}")),
            Err(BreakError::NotHeld { .. } | BreakError::OtherFence { .. }) => EventKind::BrokeNothing,
            Err(BreakError::Store(fault)) => EventKind::MayHaveBroken(fault.to_string()),
            Err(error) => EventKind::Failed(format!("{UNEXPECTED}: {error}")),
        });
    }

    fn asks_for(&self, name: &str) {
        let wish = Wish { mode: Wanted::Alone, keys: vec![name.to_owned()] };
        self.task_history.note(EventKind::AsksFor(wish));
    }

    async fn refused(&self, error: &LockError) {
        let explained = matches!(error, LockError::Unreachable { .. } | LockError::NoQuorum { .. });
        let told = error.to_string();
        let word = if !explained {
            UNEXPECTED
        } else if told.contains(char::is_control) {
            "unexpected in several lines"
        } else {
            "unreachable"
        };
        self.task_history.note(EventKind::Failed(format!("{word}: {told}")));
        sleep(REST).await;
    }

    fn chance(&mut self, percent: u32) -> bool {
        chance(&mut self.dice, percent)
    }
}

/// The fence of a lease, and the process that holds it.
fn named(holding: &HolderInfo) -> Option<(Fence, u32)> {
    let Owner::Holder { label: Some(label), .. } = &holding.owner else { return None };
    Some((holding.fence?, label.as_str().parse().ok()?))
}
