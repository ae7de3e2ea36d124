//! What the store's threads and the program's tasks share: who waits, and how they are told.

use std::collections::HashSet;
use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixDatagram;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

use leasehold_core::{
    Attempt, Bulletin, Channel, Claim, Holder, Instant, Key, News, Notice, Push, Request, Runtime, Stamp,
    Ttl, Waiting,
};

use crate::message;
use crate::peer::{Peer, Peers};
use crate::queue::Queue;

/// Who waits in this process, and where it is told.
#[derive(Debug)]
pub(crate) struct Post {
    pub(crate) waiting: Waiting,
    pub(crate) peers: Arc<Peers>,
    pub(crate) bulletin: Bulletin,
    runtime: Arc<dyn Runtime>,
    /// Who may have something in the file. Locked while a request is served and its answer noted, so that what other processes
    /// say of it is not heard before.
    holding: Mutex<HashSet<Holder>>,
    ear: OnceLock<Arc<UnixDatagram>>,
    closed: AtomicBool,
}

/// The right to serve, or to hear what others served.
pub(crate) type Turn<'a> = MutexGuard<'a, HashSet<Holder>>;

impl Post {
    pub(crate) fn new(peers: Arc<Peers>, runtime: Arc<dyn Runtime>, seed: u64) -> Self {
        Self {
            waiting: Waiting::new(seed),
            peers,
            bulletin: Bulletin::default(),
            runtime,
            holding: Mutex::default(),
            ear: OnceLock::new(),
            closed: AtomicBool::new(false),
        }
    }

    pub(crate) fn turn(&self) -> Turn<'_> {
        self.holding.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> Instant {
        self.runtime.now()
    }

    /// The channel on which this process hears; `None` where no socket can be made.
    ///
    /// A thread waits at it until the store closes.
    pub(crate) fn channel(self: &Arc<Self>, queue: &Queue) -> Option<Channel> {
        if self.ear.get().is_none() && self.listen(queue.clone()).is_err() {
            return None;
        }
        self.peers.own().map(Peer::channel)
    }

    fn listen(self: &Arc<Self>, queue: Queue) -> io::Result<()> {
        let ear = Arc::new(self.peers.open_ear()?);
        let post = Arc::clone(self);
        let heard = Arc::clone(&ear);
        thread::Builder::new().name("leasehold-ear".into()).spawn(move || post.hear_all(&heard, &queue))?;
        let _ = self.ear.set(ear);
        // It may have closed in between.
        if self.closed.load(Ordering::SeqCst) {
            self.close();
        }
        Ok(())
    }

    fn hear_all(&self, ear: &UnixDatagram, queue: &Queue) {
        let mut bytes = [0; message::LONGEST];
        while !self.closed.load(Ordering::SeqCst) {
            // What cannot be read is not worth more than what was lost on the way.
            let Ok(length) = ear.recv(&mut bytes) else { continue };
            let Some((holder, key, news, at)) = message::read(&bytes[..length]) else { continue };
            if !self.hear(&mut self.turn(), holder, &key, news, at) {
                queue.send(move |desk| desk.take_back(holder, key), drop);
            }
        }
    }

    /// Says something to a waiter of this process. `false` when it is given a lease and is not here any more.
    fn hear(&self, holding: &mut Turn<'_>, holder: Holder, key: &Key, news: News, at: Stamp) -> bool {
        if news == News::Broken {
            self.bulletin.say(&Notice::Broken { holder, key: key.clone() });
            return true;
        }
        let since = Instant::from_nanos(at.as_micros().saturating_mul(1000));
        let wanted = self.waiting.hears(holder, key, news, since, self.now());
        if wanted && matches!(news, News::Granted { .. }) {
            holding.insert(holder);
        }
        wanted
    }

    /// Tells whom a request concerned. Gives back who was given a lease in this process and is not here any more.
    pub(crate) fn tell(&self, turn: &mut Turn<'_>, pushes: Vec<Push>, at: Stamp) -> Vec<(Holder, Key)> {
        let own = self.peers.own().map(Peer::channel);
        let mut unwanted = Vec::new();
        for push in pushes {
            match &push.to {
                Some(channel) if own.as_ref() != Some(channel) => {
                    self.peers.tell(channel, &message::write(&push, at));
                }
                to => {
                    let wanted = self.hear(turn, push.holder, &push.key, push.news, at);
                    // Who has no channel may be another process's.
                    if !wanted && to.is_some() {
                        unwanted.push((push.holder, push.key));
                    }
                }
            }
        }
        unwanted
    }

    /// Leaves the living at once, where nothing hangs on this life. What is still served enters it again, under another name.
    pub(crate) fn go_if_nothing_is_held(&self) {
        if self.holding.try_lock().is_ok_and(|holding| holding.is_empty()) {
            self.peers.go(false);
        }
    }

    /// Nothing is heard any more.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        if let Some(ear) = self.ear.get() {
            let _ = ear.shutdown(Shutdown::Both);
        }
    }
}

/// The request that takes back what somebody was given who is not here any more.
pub(crate) fn taking_back(holder: Holder, key: Key) -> Request {
    Request::Release(Attempt::new(Claim::exclusive(key), holder, None, Ttl::DEFAULT))
}
