//! A process of a group of workers: it follows orders on a runtime with one thread.

use std::collections::HashMap;
use std::env;
use std::future::pending;
use std::pin::Pin;
use std::time::Duration;

use competitor::follow_orders;
use leasehold::{Guard, InspectError, LockError, Locks, Mutex};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::AnyError;
use crate::clock;
use crate::order::{Order, Report};
use crate::turn::Turn;
use crate::workers::WORKER_FLAG;

/// The live bytes of this process, in the program that counts them.
pub type LiveBytes = fn() -> usize;

/// Serves a group of workers and exits, if this process was started for that.
pub fn serve_if_told_to(live: Option<LiveBytes>) {
    let words: Vec<String> = env::args().skip(1).collect();
    let [worker, number, url, direct] = words.as_slice() else { return };
    if worker != WORKER_FLAG {
        return;
    }
    let connect = async || Worker::connect(number.parse()?, url, direct, live).await;
    follow_orders(connect, Worker::obey, &Report::Done, Report::Failed)
}

struct Worker {
    number: u64,
    locks: Locks,
    /// The same store, through a connection that is not counted.
    direct: Locks,
    live: Option<LiveBytes>,
    waiters: Vec<JoinHandle<Result<Vec<Turn>, LockError>>>,
    started: u64,
    held: HashMap<String, Guard>,
    kept: Vec<Guard>,
}

impl Worker {
    async fn connect(
        number: u64,
        url: &str,
        direct_url: &str,
        live: Option<LiveBytes>,
    ) -> Result<Self, AnyError> {
        let locks = Locks::connect(url).await?;
        let direct = if url == direct_url { locks.clone() } else { Locks::connect(direct_url).await? };
        let worker = Self {
            number,
            locks,
            direct,
            live,
            waiters: Vec::new(),
            started: 0,
            held: HashMap::new(),
            kept: Vec::new(),
        };
        worker.warm_up().await?;
        Ok(worker)
    }

    /// Hands over a key of its own once: connections, scripts and channels exist before the count.
    async fn warm_up(&self) -> Result<(), AnyError> {
        let mutex = self.locks.mutex(format!("warm-up:{}", self.number));
        let guard = mutex.lock().await?;
        let waiter = tokio::spawn(mutex.lock().into_future());
        // Long enough for the waiter to have asked once; otherwise it is served all the same.
        sleep(Duration::from_millis(5)).await;
        guard.release().await?;
        waiter.await??.release().await?;
        Ok(())
    }

    async fn obey(&mut self, order: Order) -> Result<Report, AnyError> {
        match order {
            Order::Take { key, waiters, each, hold, think } => {
                let mutex = self.locks.mutex(key);
                let [hold, think] = [hold, think].map(Duration::from_micros);
                for _ in 0..waiters {
                    let waiter = self.number << 32 | self.started;
                    self.started += 1;
                    let task = takes_turns(mutex.clone(), waiter, each, hold, think);
                    self.waiters.push(tokio::spawn(task));
                }
            }
            Order::Collect => {
                let mut turns = Vec::new();
                for waiter in self.waiters.drain(..) {
                    turns.extend(waiter.await??);
                }
                return Ok(Report::Turns(turns));
            }
            Order::Hold { key } => {
                let guard = self.direct.mutex(&key).lock().await?;
                self.held.insert(key, guard);
            }
            Order::Queued { key, waiters } => self.until_queued(&key, waiters).await?,
            Order::Yield => {
                for (_, guard) in self.held.drain() {
                    guard.release().await?;
                }
            }
            Order::WeighWaiters { key, waiters } => return self.weigh_waiters(&key, waiters).await,
            Order::Keep { guards, ttl } => return self.keep(guards, Duration::from_millis(ttl)).await,
            Order::Rest { millis } => {
                let before = clock::processor();
                sleep(Duration::from_millis(millis)).await;
                let processor = clock::processor() - before;
                let lost = self.kept.iter().filter(|guard| !guard.is_held()).count();
                return Ok(Report::Kept { processor, lost });
            }
        }
        Ok(Report::Done)
    }

    async fn until_queued(&self, key: &str, waiters: usize) -> Result<(), AnyError> {
        let pause = Duration::from_millis(if waiters > 100 { 10 } else { 1 });
        loop {
            match self.direct.inspect(key).await {
                Ok(state) if state.waiters.len() >= waiters => return Ok(()),
                // With so many concurrent requests, an answer can take longer than the time limit.
                Err(InspectError::Store(fault)) if !fault.is_lasting() => {}
                looked => drop(looked?),
            }
            sleep(pause).await;
        }
    }

    /// Compared with as many tasks that wait for nothing: only the waiters' own memory remains.
    async fn weigh_waiters(&self, key: &str, waiters: usize) -> Result<Report, AnyError> {
        let guard = self.direct.mutex(key).lock().await?;
        let mutex = self.locks.mutex(key);
        let live = || self.live.map_or(0, |live| live());
        let mut tasks: Vec<JoinHandle<Result<Guard, LockError>>> = Vec::with_capacity(waiters);
        let nothing = || -> Pin<Box<dyn Future<Output = _> + Send>> { Box::pin(pending()) };
        let before = live();
        tasks.extend((0..waiters).map(|_| tokio::spawn(nothing())));
        tokio::task::yield_now().await;
        let bare = live().saturating_sub(before);
        for task in tasks.drain(..) {
            task.abort();
            // The task reports that it was aborted.
            let _ = task.await;
        }
        let before = live();
        for _ in 0..waiters {
            tasks.push(tokio::spawn(mutex.lock().into_future()));
        }
        self.until_queued(key, waiters).await?;
        // Every request has been answered; unread answers would be counted, too.
        let with_us = at_rest(live).await.saturating_sub(before);
        tasks.iter().for_each(JoinHandle::abort);
        guard.release().await?;
        let each = (with_us as f64 - bare as f64) / waiters as f64;
        Ok(Report::Weight(self.live.map(|_| each)))
    }

    async fn keep(&mut self, guards: usize, ttl: Duration) -> Result<Report, AnyError> {
        let live = || self.live.map_or(0, |live| live());
        let before = live();
        self.kept = Vec::with_capacity(guards);
        for first in (0..guards).step_by(64) {
            let several = first..guards.min(first + 64);
            let requests = several
                .map(|n| tokio::spawn(self.locks.mutex(format!("held:{n}")).ttl(ttl).lock().into_future()));
            for request in requests.collect::<Vec<_>>() {
                self.kept.push(request.await??);
            }
        }
        let each = live().saturating_sub(before) as f64 / guards as f64;
        Ok(Report::Weight(self.live.map(|_| each)))
    }
}

/// The live bytes of the idle process: the value that several readings agree on.
async fn at_rest(live: impl Fn() -> usize) -> usize {
    const SAME: u32 = 5;
    const APART: Duration = Duration::from_millis(2);
    let (mut weight, mut same) = (live(), 0);
    while same < SAME {
        sleep(APART).await;
        let now = live();
        same = if now == weight { same + 1 } else { 0 };
        weight = now;
    }
    weight
}

async fn takes_turns(
    mutex: Mutex,
    waiter: u64,
    each: u32,
    hold: Duration,
    think: Duration,
) -> Result<Vec<Turn>, LockError> {
    let mut turns = Vec::with_capacity(each as usize);
    for _ in 0..each {
        let asked = clock::now();
        let guard = mutex.lock().await?;
        let had = clock::now();
        if !hold.is_zero() {
            sleep(hold).await;
        }
        let (fence, asks) = (guard.fence().get(), guard.attempts());
        let released = clock::now();
        // A release that fails shows up as a turn that comes too early, or never.
        let _ = guard.release().await;
        turns.push(Turn { waiter, asked, had, released, fence, asks });
        if !think.is_zero() {
            sleep(think).await;
        }
    }
    Ok(turns)
}
