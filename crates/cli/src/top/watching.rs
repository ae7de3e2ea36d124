//! A task that watches the store, so that typing never causes more requests.

use std::time::Instant;

use leasehold::{Key, Progress, Snapshot, Watch};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;

use crate::exit::Failure;
use crate::say::plain;

#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) snapshots: Vec<Snapshot>,
    pub(crate) at: Instant,
    pub(crate) scanned: u16,
    /// True once the whole store has been scanned.
    pub(crate) complete: bool,
    pub(crate) fault: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Watching {
    known: watch::Receiver<Known>,
    asks: UnboundedSender<Ask>,
    chosen: Option<Key>,
}

#[derive(Debug)]
enum Ask {
    Choose(Option<Key>),
    LookAgain(Key),
}

impl Watching {
    pub(crate) fn begin(watched: Watch) -> Self {
        let (tell, known) = watch::channel(Known::of(&watched, None, false));
        let (asks, asked) = unbounded_channel();
        tokio::spawn(watch_over(watched, tell, asked));
        Self { known, asks, chosen: None }
    }

    /// The data, when it has changed. Cancel safe.
    pub(crate) async fn next(&mut self) -> Result<Known, Failure> {
        let gone = |_| Failure::refused("the watch of the store has ended: start it again");
        self.known.changed().await.map_err(gone)?;
        Ok(self.known.borrow_and_update().clone())
    }

    /// Makes the task look at this lock before the others.
    pub(crate) fn choose(&mut self, key: Option<Key>) {
        if self.chosen != key {
            self.chosen.clone_from(&key);
            let _ = self.asks.send(Ask::Choose(key));
        }
    }

    /// Makes the task look at this lock next.
    pub(crate) fn look_again(&self, key: Key) {
        let _ = self.asks.send(Ask::LookAgain(key));
    }
}

async fn watch_over(mut watched: Watch, tell: watch::Sender<Known>, mut asked: UnboundedReceiver<Ask>) {
    loop {
        tokio::select! {
            biased;
            ask = asked.recv() => match ask {
                Some(Ask::Choose(key)) => watched.choose(key),
                Some(Ask::LookAgain(key)) => watched.look_again(key),
                None => return,
            },
            () = watched.due() => {
                let fault = watched.step().await.err().map(|error| plain(&error.to_string()));
                let complete = tell.borrow().complete;
                tell.send_replace(Known::of(&watched, fault, complete));
            }
        }
    }
}

impl Known {
    fn of(watched: &Watch, fault: Option<String>, complete: bool) -> Self {
        let Progress { scanned, passes, uninspected, .. } = watched.progress();
        Self {
            snapshots: watched.found().collect(),
            at: Instant::now(),
            scanned,
            complete: complete || passes > 0 && uninspected == 0,
            fault,
        }
    }
}
