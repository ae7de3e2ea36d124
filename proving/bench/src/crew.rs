//! Processes that work together: further runs of this program.

use std::env;
use std::error::Error;
use std::process::Command;

use crate::child::Child;
use crate::order::{Order, Report};
use crate::turn::{Turn, Turns};
use crate::venue::Site;

/// The first argument of a process that is one of a crew.
pub const HAND: &str = "--one-of-a-crew";

/// What can go wrong: in words.
pub type Trouble = Box<dyn Error + Send + Sync>;

/// Several processes, each with a connection of its own. They end with this.
#[derive(Debug)]
pub struct Crew(Vec<Hand>);

/// One of them.
#[derive(Debug)]
struct Hand(Child);

impl Crew {
    /// Starts so many.
    ///
    /// # Errors
    ///
    /// When a process cannot be started.
    pub fn start(site: &Site, hands: usize) -> Result<Self, Trouble> {
        (0..hands)
            .map(|number| Hand::start(site, number, "bench", &site.url))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Starts so many, each connected by a way on which its commands are counted; that takes time, so nothing is timed then.
    ///
    /// # Errors
    ///
    /// When a process cannot be started.
    pub fn start_counted(site: &Site, hands: usize) -> Result<Self, Trouble> {
        let url = site.counted_url();
        (0..hands).map(|number| Hand::start(site, number, "bench", &url)).collect::<Result<_, _>>().map(Self)
    }

    /// One that counts what is allocated; its times mean nothing.
    ///
    /// # Errors
    ///
    /// When the process cannot be started.
    pub fn start_weighed(site: &Site) -> Result<Self, Trouble> {
        Ok(Self(vec![Hand::start(site, 0, "bench-weighed", &site.url)?]))
    }

    /// How many.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "there always are some")]
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Tells one of them, and waits for its report.
    ///
    /// # Errors
    ///
    /// What it says, or that it said nothing.
    pub fn tell(&mut self, hand: usize, order: &Order) -> Result<Report, Trouble> {
        self.0[hand].send(order)?;
        self.0[hand].receive()
    }

    /// Tells all of them at once, then waits for their reports.
    ///
    /// # Errors
    ///
    /// As [`tell`](Self::tell).
    pub fn tell_all(&mut self, order: &Order) -> Result<Vec<Report>, Trouble> {
        self.0.iter_mut().try_for_each(|hand| hand.send(order))?;
        self.0.iter_mut().map(Hand::receive).collect()
    }

    /// Starts waiters in all of them, as evenly as it goes. The first holds the key meanwhile, and gives it up when all are in
    /// line, so that nobody has a start on the others.
    ///
    /// # Errors
    ///
    /// As [`tell`](Self::tell).
    pub fn take_turns(&mut self, race: &Race<'_>) -> Result<Turns, Trouble> {
        self.line_up(race)?;
        self.tell(0, &Order::Yield)?;
        self.collect()
    }

    /// The first part of [`take_turns`](Self::take_turns): all stand in line.
    ///
    /// # Errors
    ///
    /// As [`tell`](Self::tell).
    pub fn line_up(&mut self, race: &Race<'_>) -> Result<(), Trouble> {
        let key = race.key.to_owned();
        self.tell(0, &Order::Hold { key: key.clone() })?;
        let hands = self.len();
        for hand in 0..hands {
            let waiters = race.waiters / hands + usize::from(hand < race.waiters % hands);
            let Race { each, hold, think, .. } = *race;
            self.tell(hand, &Order::Take { key: key.clone(), waiters, each, hold, think })?;
        }
        self.tell(0, &Order::InLine { key, waiters: race.waiters })?;
        Ok(())
    }

    /// The same race by the least hand-over that there can be, one waiter in each of them, and no start in line.
    ///
    /// # Errors
    ///
    /// As [`tell`](Self::tell).
    pub fn take_bare_turns(&mut self, race: &Race<'_>) -> Result<Turns, Trouble> {
        let Race { key, each, hold, think, .. } = *race;
        let reports = self.tell_all(&Order::TakeBare { key: format!("bare:{key}"), each, hold, think })?;
        Ok(Turns::new(reports.into_iter().flat_map(turns).collect()))
    }

    /// Waits for all waiters of all of them.
    ///
    /// # Errors
    ///
    /// As [`tell`](Self::tell).
    pub fn collect(&mut self) -> Result<Turns, Trouble> {
        let reports = self.tell_all(&Order::Collect)?;
        Ok(Turns::new(reports.into_iter().flat_map(turns).collect()))
    }
}

/// What waiters do with a key.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "workloads spell it out")]
pub struct Race<'a> {
    /// The key.
    pub key: &'a str,
    /// How many wait, in all processes together.
    pub waiters: usize,
    /// How many turns each has.
    pub each: u32,
    /// How long a turn lasts, in µs.
    pub hold: u64,
    /// How long each rests after a turn, in µs.
    pub think: u64,
}

fn turns(report: Report) -> Vec<Turn> {
    if let Report::Turns(turns) = report { turns } else { Vec::new() }
}

impl Hand {
    fn start(site: &Site, number: usize, program: &str, url: &str) -> Result<Self, Trouble> {
        let path = env::current_exe()?.with_file_name(program);
        if !path.is_file() {
            let at = path.display();
            return Err(format!("there is no {at}: build both with `cargo build -p bench --bins`").into());
        }
        let mut command = Command::new(&path);
        command.args([HAND, &*number.to_string(), url, &site.url]);
        let mut hand = Self(Child::start(&mut command)?);
        hand.receive()?;
        Ok(hand)
    }

    fn send(&mut self, order: &Order) -> Result<(), Trouble> {
        self.0.send(order)
    }

    fn receive(&mut self) -> Result<Report, Trouble> {
        match self.0.receive()? {
            Report::Failed(why) => Err(why.into()),
            report => Ok(report),
        }
    }
}
