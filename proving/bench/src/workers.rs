//! Processes that work together: further runs of this program.

use std::env;
use std::process::Command;

use crate::AnyError;
use crate::backend::OpenStore;
use crate::child::Child;
use crate::order::{Order, Report};
use crate::turn::Turns;

/// The first argument of a process that is a worker.
pub const WORKER_FLAG: &str = "--bench-worker";

/// Several processes, each with its own connection. They are killed when this is dropped.
#[derive(Debug)]
pub struct Workers(Vec<Child>);

impl Workers {
    pub fn start(store: &OpenStore, processes: usize) -> Result<Self, AnyError> {
        Self::of("bench", store, processes, &store.url)
    }

    /// Starts processes whose connections go through a counting proxy, so nothing is timed in them.
    pub fn start_counted(store: &OpenStore, processes: usize) -> Result<Self, AnyError> {
        Self::of("bench", store, processes, &store.counted_url())
    }

    /// Starts one process that counts its allocations; its times are meaningless.
    pub fn start_weighed(store: &OpenStore) -> Result<Self, AnyError> {
        Self::of("bench-weighed", store, 1, &store.url)
    }

    fn of(program: &str, store: &OpenStore, processes: usize, url: &str) -> Result<Self, AnyError> {
        let path = env::current_exe()?.with_file_name(program);
        if !path.is_file() {
            let at = path.display();
            return Err(format!("there is no {at}: build both with `cargo build -p bench --bins`").into());
        }
        let start = |number: usize| {
            let mut command = Command::new(&path);
            command.args([WORKER_FLAG, &*number.to_string(), url, &store.url]);
            let mut worker = Child::start(&mut command)?;
            receive(&mut worker)?;
            Ok(worker)
        };
        (0..processes).map(start).collect::<Result<_, _>>().map(Self)
    }

    #[expect(clippy::len_without_is_empty, reason = "there always are some")]
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Sends an order to one process, and waits for its report.
    pub fn tell(&mut self, worker: usize, order: &Order) -> Result<Report, AnyError> {
        self.0[worker].send(order)?;
        receive(&mut self.0[worker])
    }

    /// Starts waiters in all processes, spread as evenly as possible. The first process holds the
    /// key until all waiters are queued, so that none has a head start.
    pub fn take_turns(&mut self, race: &Race<'_>) -> Result<Turns, AnyError> {
        self.start_queue(race)?;
        self.tell(0, &Order::Yield)?;
        self.collect()
    }

    /// The first part of [`take_turns`](Self::take_turns): returns when all waiters are queued.
    pub fn start_queue(&mut self, race: &Race<'_>) -> Result<(), AnyError> {
        let key = race.key.to_owned();
        self.tell(0, &Order::Hold { key: key.clone() })?;
        let processes = self.len();
        for worker in 0..processes {
            let waiters = race.waiters / processes + usize::from(worker < race.waiters % processes);
            let Race { each, hold, think, .. } = *race;
            self.tell(worker, &Order::Take { key: key.clone(), waiters, each, hold, think })?;
        }
        self.tell(0, &Order::Queued { key, waiters: race.waiters })?;
        Ok(())
    }

    /// Waits for all waiters of all processes.
    pub fn collect(&mut self) -> Result<Turns, AnyError> {
        self.0.iter_mut().try_for_each(|worker| worker.send(&Order::Collect))?;
        let mut all = Vec::new();
        for worker in &mut self.0 {
            if let Report::Turns(turns) = receive(worker)? {
                all.extend(turns);
            }
        }
        Ok(Turns::new(all))
    }
}

/// How waiters use a key.
#[derive(Clone, Copy, Debug)]
pub struct Race<'a> {
    pub key: &'a str,
    /// The number of waiters in all processes together.
    pub waiters: usize,
    pub each: u32,
    /// The duration of a turn, in µs.
    pub hold: u64,
    /// The pause after each turn, in µs.
    pub think: u64,
}

fn receive(worker: &mut Child) -> Result<Report, AnyError> {
    match worker.receive()? {
        Report::Failed(why) => Err(why.into()),
        report => Ok(report),
    }
}
