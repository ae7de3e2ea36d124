//! `leasehold top`: shows holders and waiters live.

mod draw;
mod remembered;
mod rows;
mod screen;
mod view;
mod watching;

use std::ffi::OsStr;
use std::io::IsTerminal as _;
use std::time::Duration;

use clap::Args;
use leasehold::{BreakNote, Fence, Key, Label, Locks};
use ratatui::crossterm::event::{self, Event as Typed};
use rustix::process::Signal;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::MissedTickBehavior;

use self::remembered::{Marks, RecordQueries, Remembered, look_through};
use self::screen::{Screen, is_gone};
use self::view::{Action, Page, View};
use self::watching::Watching;
use crate::args::PrefixArgs;
use crate::exit::{End, Failure};
use crate::label::default_label;
use crate::say::plain;
use crate::signals::{Event, Signals, stop};
use crate::terminal::is_dumb;

/// Show holders and waiters live, on the terminal
///
/// Shows all locks that are held or waited for, or those whose names begin with PREFIX, and the
/// queue of the selected one. A lease can be broken there, after a confirmation that names its key,
/// holder and fence; if the lock has changed hands since, nothing is broken.
///
/// It sends a server at most twenty commands a second, however many keys there are. Among a million
/// keys, it takes about twenty seconds to find all locks, or a new one; locks that have been found
/// are looked at again about once a second.
#[derive(Args, Debug)]
#[command(
    override_usage = "leasehold top [OPTIONS] [PREFIX]",
    after_help = "Exit codes: `leasehold help exit-codes`.",
    after_long_help = EXAMPLE
)]
pub(crate) struct TopArgs {
    #[command(flatten)]
    pub(crate) which: PrefixArgs,
}

macro_rules! keys {
    () => {
        "  up, down, k, j, PgUp, PgDn, Home, End   choose a lock
  i, Enter   all about the chosen lock; Esc goes back
  /   show only locks with this text in the key, or in
      the label or digits of a holder or a waiter;
      Enter keeps the filter, Esc clears it
  s   sort by another column; r: the other way round
  m   what once and every ran, and when it is due
  b   break the chosen lease: asks first
  ?   this help
  q   end; so does Ctrl-C. Ctrl-Z stops until `fg`"
    };
}

/// The keys and their actions, for the help on the screen and on the command line.
const KEYS: &str = keys!();

const EXAMPLE: &str = concat!(
    "Keys:\n",
    keys!(),
    "\n
HELD is how long a lock has been held, LEFT is how long its lease lasts unless it is renewed.
On a narrow terminal, LEFT is left out, and then FENCE; `i` shows all.
`m` looks through the store once, as `leasehold ls --marks` does.

The exit code is 0 after q.

Example: who holds up the nightly jobs?
  leasehold top nightly:"
);

/// The interval between redraws if nothing is typed: short times are shown in tenths.
const FRAME: Duration = Duration::from_millis(250);

/// The result of a request to the store other than watching.
#[derive(Debug)]
enum Response {
    Broken(Key, String),
    Remembered(Key, Result<Remembered, String>),
    Marks(Result<Marks, String>),
}

pub(crate) async fn top(args: TopArgs) -> Result<End, Failure> {
    let (prefix, place) = args.which.resolve()?;
    on_a_terminal()?;
    // Before there are other threads.
    let mut signals = Signals::catch()?;
    let locks = tokio::select! {
        biased;
        signal = signals.next() => return Ok(End::Signal(signal.as_raw())),
        locks = place.look(false) => locks?,
    };
    let mut watching = Watching::begin(locks.watch(&prefix));
    let mut view = View::of(plain(locks.store()));
    let mut screen = Screen::take()?;
    let mut remembering = RecordQueries::default();
    let mut keys = keyboard();
    let (tell, mut told) = unbounded_channel();
    let mut frames = tokio::time::interval(FRAME);
    frames.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            event = signals.next_event() => match event {
                Event::Action { signal, .. } => return Ok(End::Signal(signal.as_raw())),
                Event::Stop { .. } => screen.leave_while(|| stop(Signal::TSTP))?,
                Event::Continued => screen.draw_anew()?,
            },
            typed = keys.recv() => match typed {
                Some(Typed::Key(key)) => match view.press(key) {
                    Action::Nothing => {}
                    Action::End => return Ok(End::SUCCESS),
                    Action::Interrupt => return Ok(End::Signal(Signal::INT.as_raw())),
                    Action::Stop => screen.leave_while(|| stop(Signal::TSTP))?,
                    Action::Break(key, fence) => break_lease(&locks, key, fence, tell.clone()),
                    Action::Marks => look_through(&locks, &prefix, &tell),
                },
                Some(_) => {}
                None => return Ok(End::Signal(Signal::HUP.as_raw())),
            },
            Some(news) = told.recv() => match news {
                Response::Broken(key, came_of_it) => {
                    view.said = Some(came_of_it);
                    watching.look_again(key);
                }
                Response::Remembered(key, looked) => view.remember(&key, looked),
                Response::Marks(marks) => view.learn_marks(marks),
            },
            known = watching.next() => view.learn(known?),
            _ = frames.tick() => {}
        }
        // Nobody is told if the program that started this one ignores SIGHUP, as `nohup` does.
        if is_gone() {
            return Ok(End::Signal(Signal::HUP.as_raw()));
        }
        let page = match &view.page {
            Page::Lock(key) => Some(key),
            _ => None,
        };
        remembering.look_at(page, &locks, &tell);
        watching.choose(page.cloned().or_else(|| view.chosen_key()));
        screen.draw(&mut view)?;
    }
}

fn on_a_terminal() -> Result<(), Failure> {
    let fact = match (std::io::stdin().is_terminal(), std::io::stdout().is_terminal()) {
        (true, true) if is_dumb() => "this terminal cannot be drawn on (TERM)",
        (true, true) => return Ok(()),
        (false, _) => "stdin is not a terminal to read keys from",
        (_, false) => "stdout is not a terminal to draw on",
    };
    Err(Failure::usage(format!("{fact}: to read the same once, list the locks"))
        .hint("leasehold ls --json --all"))
}

/// Typed keys, read by a thread that ends with the process.
fn keyboard() -> UnboundedReceiver<Typed> {
    let (tell, typed) = unbounded_channel();
    std::thread::spawn(move || {
        while let Ok(event) = event::read() {
            if tell.send(event).is_err() {
                return;
            }
        }
    });
    typed
}

fn break_lease(locks: &Locks, key: Key, fence: Fence, tell: UnboundedSender<Response>) {
    let locks = locks.clone();
    tokio::spawn(async move {
        let by = Label::new(&default_label(OsStr::new("top"))).ok();
        let note = BreakNote { by, reason: None };
        let broken = locks.break_lease_noting(key.as_bytes(), fence, note).await;
        let came_of_it = match broken {
            Ok(holding) => {
                format!("{key}: broken: ended the lease with fence {fence} of {}", holding.owner)
            }
            Err(error) => error.to_string(),
        };
        let _ = tell.send(Response::Broken(key, plain(&came_of_it)));
    });
}
