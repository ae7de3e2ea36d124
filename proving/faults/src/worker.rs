//! What a worker does.

use std::{
    future::{IntoFuture as _, poll_fn},
    pin::pin,
    process::{self, ExitCode},
    sync::Arc,
    task::Poll,
    time::Duration,
};

use leasehold::{Guard, LockError, Locks, Mutex, ReleaseError};
use rand::{Rng as _, RngExt as _, SeedableRng as _, rngs::StdRng};
use tokio::{
    signal::unix::{SignalKind, signal},
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::{
    Plan,
    history::{Pen, What, now},
};

/// Between two looks at the lease of a long hold.
const LOOK: Duration = Duration::from_millis(20);

/// Between two requests, when the store refused.
const REST: Duration = Duration::from_millis(20);

/// How long the last releases may take.
const CLOSES_WITHIN: Duration = Duration::from_secs(3);

/// A worker's whole life, by the words that its [`Crowd`](crate::Crowd) started it with.
#[must_use]
pub fn run(words: &[String]) -> ExitCode {
    let Some(plan) = Plan::parse(words) else {
        eprintln!("a worker is started by a crowd, with a plan");
        return ExitCode::FAILURE;
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(work(plan))
}

async fn work(plan: Plan) -> ExitCode {
    let mut told_to_end = signal(SignalKind::terminate()).expect("signals can be heard");
    let label = process::id().to_string();
    let builder = Locks::builder().ttl(plan.ttl).label(&label).outage_limit(plan.outage_limit);
    let locks = match plan.connect(builder).await {
        Ok(locks) => locks,
        Err(error) => {
            eprintln!("worker {label}: {error}");
            return ExitCode::FAILURE;
        }
    };
    let pen = Arc::new(Pen::at(&plan.history).expect("the history can be written"));
    let mut tasks = JoinSet::new();
    for number in 1..=plan.tasks {
        let task = Task {
            number,
            mutex: locks.mutex(Plan::KEY),
            dice: StdRng::seed_from_u64(u64::from(process::id()) << 16 | u64::from(number)),
            plan: plan.clone(),
            pen: Arc::clone(&pen),
        };
        tasks.spawn(task.go_round());
    }
    tokio::select! {
        _ = told_to_end.recv() => {}
        ended = tasks.join_next() => panic!("a task ended: {ended:?}"),
    }
    for number in 1..=plan.tasks {
        pen.note(now(), process::id(), number, What::Cancelled);
    }
    tasks.shutdown().await;
    match locks.close(CLOSES_WITHIN).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("worker {label}: {error}");
            ExitCode::FAILURE
        }
    }
}

struct Task {
    number: u32,
    mutex: Mutex,
    dice: StdRng,
    plan: Plan,
    pen: Arc<Pen>,
}

impl Task {
    async fn go_round(mut self) {
        loop {
            if !self.plan.think.is_zero() {
                sleep(self.plan.think.mul_f64(self.dice.random())).await;
            }
            self.note(What::Asks);
            match self.ask().await {
                None => self.note(What::Cancelled),
                Some(Ok(guard)) => self.hold(guard).await,
                Some(Err(error)) => {
                    self.note(What::Failed(error.to_string()));
                    sleep(REST).await;
                }
            }
        }
    }

    /// Asks; `None` if it was not to be waited for.
    async fn ask(&mut self) -> Option<Result<Guard, LockError>> {
        let (pen, number) = (Arc::clone(&self.pen), self.number);
        let request = self.mutex.lock().on_wait(move |waiting| {
            if waiting.place.is_some() {
                pen.note(now(), process::id(), number, What::Stands);
            }
        });
        if !self.chance(self.plan.dropped_percent) {
            return Some(request.await);
        }
        // Each of the first polls leaves it at another await; the later ones are those that a wake-up brings.
        let polls = self.dice.random_range(1..=6);
        let patience = Duration::from_micros(self.dice.random_range(0..200_000));
        let mut request = pin!(request.into_future());
        let mut polled = 0;
        let some_polls = poll_fn(|context| {
            polled += 1;
            match request.as_mut().poll(context) {
                Poll::Ready(answer) => Poll::Ready(Some(answer)),
                Poll::Pending if polled >= polls => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            }
        });
        timeout(patience, some_polls).await.ok().flatten()
    }

    async fn hold(&mut self, guard: Guard) {
        let mut until = believed(&guard);
        self.note(What::Granted { fence: guard.fence().get(), until });
        let long = self.chance(self.plan.long_percent);
        let mut left = if long { self.plan.long_hold } else { self.plan.hold };
        while !left.is_zero() && guard.is_held() {
            let nap = left.min(LOOK);
            sleep(nap).await;
            left -= nap;
            let longer = believed(&guard);
            // What is counted in another way may differ by some microseconds; and of what has ended nothing is left from now.
            if longer > until + 1_000_000 && guard.is_held() {
                until = longer;
                self.note(What::Renewed { until });
            }
        }
        let at = now();
        let held = guard.is_held();
        self.pen.note(at, process::id(), self.number, What::LetsGo { held });
        if self.chance(self.plan.dropped_percent) {
            return drop(guard);
        }
        match guard.release().await {
            Ok(()) => self.note(What::Released),
            Err(ReleaseError::Unreachable(fault)) => self.note(What::Unconfirmed(fault.to_string())),
            Err(error) => self.note(What::Lost(error.to_string())),
        }
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.dice.next_u32() % 100 < percent
    }

    fn note(&self, what: What) {
        self.pen.note(now(), process::id(), self.number, what);
    }
}

/// Until when a guard is believed, and perhaps a moment longer.
fn believed(guard: &Guard) -> u64 {
    let now = now();
    now + u64::try_from(guard.remaining().as_nanos()).unwrap_or(0)
}
