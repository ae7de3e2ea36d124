//! The actions of a worker.

use std::{
    error::Error,
    future::IntoFuture as _,
    process::{self, ExitCode},
    sync::Arc,
    time::Duration,
};

use leasehold::{Guard, LockError, Locks};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use tokio::{
    signal::unix::{SignalKind, signal},
    task::JoinSet,
    time::sleep,
};

use crate::{
    Plan,
    history::{EventKind, HistoryWriter, now},
    visit::{TaskHistory, unless_dropped},
    wish::Wish,
};

/// The pause between two requests after the store refused.
const REST: Duration = Duration::from_millis(20);

/// The time limit for the last releases.
pub(crate) const CLOSES_WITHIN: Duration = Duration::from_secs(3);

/// The main function of a worker, with the arguments that its [`Crowd`](crate::Crowd) passes.
#[must_use]
pub fn run(words: &[String]) -> ExitCode {
    let Some(plan) = Plan::parse(words) else {
        eprintln!("a worker is started by a crowd, with a plan");
        return ExitCode::FAILURE;
    };
    live(&plan, |task_history, locks| Task::of(&plan, task_history, locks).go_round())
}

/// Follows a plan in this process until `end`, then releases everything.
///
/// # Errors
///
/// If the history cannot be written, or not everything can be released.
pub async fn follow(plan: &Plan, locks: &Locks, end: impl Future<Output = ()>) -> Result<(), Box<dyn Error>> {
    rounds(plan, locks, |task_history, locks| Task::of(plan, task_history, locks).go_round(), end).await
}

/// Runs the tasks of a process round after round until SIGTERM, then releases everything.
pub(crate) fn live<Round>(plan: &Plan, task: impl Fn(TaskHistory, &Locks) -> Round) -> ExitCode
where
    Round: Future<Output = ()> + Send + 'static,
{
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    match runtime.block_on(work(plan, task)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("worker {}: {error}", process::id());
            ExitCode::FAILURE
        }
    }
}

async fn work<Round>(plan: &Plan, task: impl Fn(TaskHistory, &Locks) -> Round) -> Result<(), Box<dyn Error>>
where
    Round: Future<Output = ()> + Send + 'static,
{
    let mut told_to_end = signal(SignalKind::terminate())?;
    let label = process::id().to_string();
    let builder = Locks::builder().ttl(plan.ttl).label(&label).outage_limit(plan.outage_limit);
    let locks = plan.connect(builder).await?;
    let end = async {
        told_to_end.recv().await;
    };
    rounds(plan, &locks, task, end).await
}

async fn rounds<Round>(
    plan: &Plan,
    locks: &Locks,
    task: impl Fn(TaskHistory, &Locks) -> Round,
    end: impl Future<Output = ()>,
) -> Result<(), Box<dyn Error>>
where
    Round: Future<Output = ()> + Send + 'static,
{
    let writer = Arc::new(HistoryWriter::at(&plan.history)?);
    let mut tasks = JoinSet::new();
    for number in 1..=plan.tasks {
        tasks.spawn(task(TaskHistory { writer: Arc::clone(&writer), task: number }, locks));
    }
    tokio::select! {
        () = end => {}
        ended = tasks.join_next() => panic!("a task ended: {ended:?}"),
    }
    for number in 1..=plan.tasks {
        writer.note(now(), process::id(), number, EventKind::Cancelled);
    }
    tasks.shutdown().await;
    locks.close(CLOSES_WITHIN).await?;
    Ok(())
}

struct Task {
    task_history: TaskHistory,
    locks: Locks,
    wish: Option<Wish>,
    dice: StdRng,
    plan: Plan,
}

impl Task {
    fn of(plan: &Plan, task_history: TaskHistory, locks: &Locks) -> Self {
        let number = task_history.task;
        let dice = StdRng::seed_from_u64(u64::from(process::id()) << 16 | u64::from(number));
        let wish = plan.wishes.get(number as usize - 1);
        let wish = wish.map(|wish| wish.parse().expect("a plan has only wishes that can be parsed"));
        Self { task_history, locks: locks.clone(), wish, dice, plan: plan.clone() }
    }

    async fn go_round(mut self) {
        loop {
            if !self.plan.think.is_zero() {
                sleep(self.plan.think.mul_f64(self.dice.random())).await;
            }
            self.task_history.note(self.wish.clone().map_or(EventKind::Asks, EventKind::AsksFor));
            match self.ask().await {
                None => self.task_history.note(EventKind::Cancelled),
                Some(Ok(guard)) => self.task_history.has(guard, &self.plan, &mut self.dice).await,
                Some(Err(error)) => {
                    self.task_history.note(EventKind::Failed(error.to_string()));
                    sleep(REST).await;
                }
            }
        }
    }

    /// Requests the lock; `None` if the request was dropped.
    async fn ask(&mut self) -> Option<Result<Guard, LockError>> {
        let request = match &self.wish {
            Some(wish) => wish.request(&self.locks),
            None => self.locks.mutex(Plan::KEY).lock(),
        };
        let request = self.task_history.stands(request).into_future();
        unless_dropped(request, &self.plan, &mut self.dice).await
    }
}
