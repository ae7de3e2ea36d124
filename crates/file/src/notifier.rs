//! The waiters of this process and their notification, shared by the store's threads and the
//! program's tasks.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixDatagram;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use leasehold_core::{
    Answer, Channel, GrantAnswer, HoldAnswer, Holder, Instant, Key, Notice, NoticeBus, Push, PushEvent,
    Request, Stamp, WaiterRegistry, locked,
};

use crate::clock::MachineClock;
use crate::message::{self, Message};
use crate::sessions::{Session, Sessions};

/// The waiters of this process, and its channel.
#[derive(Debug)]
pub(crate) struct Notifier {
    pub(crate) waiting: WaiterRegistry,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) notice_bus: NoticeBus,
    clock: MachineClock,
    /// The attempts that may have something in the file. Locked while a request is served and its
    /// answer noted, so that no message about it is handled before.
    holding: Mutex<HashSet<Holder>>,
    /// The socket of a session, on which a thread listens.
    socket: Mutex<Option<(Session, Arc<UnixDatagram>)>>,
    closed: AtomicBool,
}

/// Takes what messages of other processes cause to the worker, behind all sent before.
pub(crate) trait Errands: Clone + Send + 'static {
    /// Opens the file again if it is no longer at its path with its log.
    fn open_file(&self);

    /// Releases a lease that was granted to an attempt that is no longer here.
    fn take_back(&self, holder: Holder, key: Key);
}

/// Held while a request is served or a message is handled.
pub(crate) type ServingGuard<'a> = MutexGuard<'a, HashSet<Holder>>;

impl Notifier {
    pub(crate) fn new(sessions: Arc<Sessions>, clock: MachineClock, seed: u64) -> Self {
        Self {
            waiting: WaiterRegistry::new(seed),
            sessions,
            notice_bus: NoticeBus::default(),
            clock,
            holding: Mutex::default(),
            socket: Mutex::default(),
            closed: AtomicBool::new(false),
        }
    }

    pub(crate) fn serving(&self) -> ServingGuard<'_> {
        locked(&self.holding)
    }

    pub(crate) fn now(&self) -> Instant {
        self.clock.runtime().now()
    }

    /// The channel of this process, on which a thread listens; `None` if no socket can be created.
    pub(crate) fn channel(self: &Arc<Self>, errands: &impl Errands) -> Option<Channel> {
        let session = self.sessions.own()?;
        let listens = locked(&self.socket).as_ref().is_some_and(|(of, _)| *of == session);
        (listens || self.listen(session, errands.clone()).is_ok()).then(|| session.channel())
    }

    fn listen(self: &Arc<Self>, session: Session, errands: impl Errands) -> io::Result<()> {
        // So that the thread of the one before ends.
        if let Some((_, lost)) = locked(&self.socket).take() {
            let _ = lost.shutdown(Shutdown::Both);
        }
        let socket = Arc::new(self.sessions.open_socket()?);
        // Before its thread starts.
        *locked(&self.socket) = Some((session, Arc::clone(&socket)));
        let notifier = Arc::clone(self);
        let thread = thread::Builder::new()
            .name("leasehold-notify".into())
            .spawn(move || notifier.receive_all(&socket, &errands));
        if let Err(error) = thread {
            *locked(&self.socket) = None;
            return Err(error);
        }
        // It may have been closed in between.
        if self.closed.load(Ordering::SeqCst) {
            self.close();
        }
        Ok(())
    }

    /// Returns true if the waiters have named the channel of a session that is no longer this store's.
    pub(crate) fn has_moved(&self) -> bool {
        let own = self.sessions.own();
        own.is_some() && locked(&self.socket).as_ref().is_some_and(|(of, _)| own != Some(*of))
    }

    fn receive_all(&self, socket: &Arc<UnixDatagram>, errands: &impl Errands) {
        let mut bytes = [0; message::LONGEST];
        let is_current =
            || locked(&self.socket).as_ref().is_some_and(|(_, current)| Arc::ptr_eq(current, socket));
        while !self.closed.load(Ordering::SeqCst) && is_current() {
            // An unreadable message counts as lost.
            let Ok(length) = socket.recv(&mut bytes) else { continue };
            let Some(Message { key, at, pushes }) = message::read(&bytes[..length]) else {
                // Another process could not open the file because of what this store has open.
                errands.open_file();
                continue;
            };
            for (holder, event) in pushes {
                if !self.receive(holder, event, at) {
                    errands.take_back(holder, key.clone());
                }
            }
        }
    }

    /// Handles a message from another process, and [passes it on](Self::pass_on): unlocked, because
    /// the woken waiter's next request would wait for this thread.
    fn receive(&self, holder: Holder, event: PushEvent, at: Stamp) -> bool {
        let mut holding = self.serving();
        if matches!(event, PushEvent::Granted { .. }) {
            holding.insert(holder);
        }
        drop(holding);
        let wanted = self.pass_on(holder, event, at);
        if !wanted {
            self.serving().remove(&holder);
        }
        wanted
    }

    /// Notifies a waiter of this process. `false` if a lease was granted to an attempt that is gone.
    fn pass_on(&self, holder: Holder, event: PushEvent, at: Stamp) -> bool {
        if event == PushEvent::Broken {
            self.notice_bus.say(&Notice::Broken { holder });
            return true;
        }
        self.waiting.hears(holder, event, None, self.clock.instant_of(at), self.now())
    }

    /// Notes the result of a request of this process.
    pub(crate) fn note(&self, serving: &mut ServingGuard<'_>, request: &Request, answer: &Answer) {
        match (request, answer) {
            (Request::Grant { attempt, wait, .. }, Answer::Grant(answer)) => {
                if wait.is_some() {
                    self.waiting.answered(attempt, answer, self.now());
                }
                // An attempt that waits may keep some of its keys meanwhile.
                if wait.is_some() || matches!(answer, GrantAnswer::Granted { .. }) {
                    serving.insert(attempt.holder);
                }
            }
            // It may be the first renewal of a lock that was adopted.
            (Request::Rejoin { attempt, .. }, Answer::Rejoin(HoldAnswer::Done))
            | (Request::Renew(attempt), Answer::Renew(HoldAnswer::Done)) => {
                serving.insert(attempt.holder);
            }
            (Request::Release(attempt), Answer::Release(_))
            | (Request::Transfer { attempt, .. }, Answer::Transfer(HoldAnswer::Done)) => {
                serving.remove(&attempt.holder);
            }
            _ => {}
        }
    }

    /// Sends the pushes of a request. Returns attempts of ours that were granted and are gone.
    pub(crate) fn tell(
        &self,
        serving: &mut ServingGuard<'_>,
        pushes: Vec<Push>,
        at: Stamp,
    ) -> Vec<(Holder, Key)> {
        let own = self.sessions.own();
        let (mut unwanted, mut elsewhere) = (Vec::new(), BTreeMap::<_, Vec<_>>::new());
        for push in pushes {
            match push.to {
                Some(channel) if own.is_none() || Session::of(&channel) != own => {
                    elsewhere.entry((channel, push.key)).or_default().push((push.holder, push.event));
                }
                to => {
                    let wanted = self.pass_on(push.holder, push.event, at);
                    if wanted && matches!(push.event, PushEvent::Granted { .. }) {
                        serving.insert(push.holder);
                    }
                    // A waiter without a channel may belong to another process.
                    if !wanted && to.is_some() {
                        unwanted.push((push.holder, push.key));
                    }
                }
            }
        }
        for ((channel, key), pushes) in elsewhere {
            for message in message::write(&key, at, &pushes) {
                self.sessions.tell(&channel, &message);
            }
        }
        unwanted
    }

    /// Ends this store's session at once if nothing depends on it. A later request starts another one.
    pub(crate) fn go_if_nothing_is_held(&self) {
        if self.holding.try_lock().is_ok_and(|holding| holding.is_empty()) {
            self.sessions.leave(false);
        }
    }

    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        if let Some((_, socket)) = &*locked(&self.socket) {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;
    use std::task::{Context, Poll, Wake, Waker};

    use leasehold_core::{Fence, Runtime as _, Ttl};

    use super::*;
    use crate::stopped_clock::StoppedClock;

    /// A waiter's task that sends its next request as soon as it is woken.
    struct Task {
        notifier: Notifier,
        holder: Holder,
        /// Whether its grant was noted when it was woken; `None` if it had to wait for that.
        noted: OnceLock<Option<bool>>,
    }

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            let holding = self.notifier.holding.try_lock().ok();
            let _ = self.noted.set(holding.map(|holding| holding.contains(&self.holder)));
        }
    }

    #[test]
    fn a_woken_waiter_finds_its_grant_noted_and_waits_for_nobody() {
        let directory = tempfile::tempdir().unwrap();
        let sessions = Arc::new(Sessions::of_file(&directory.path().join("leases.db")));
        let holder = Holder::from_bits(7);
        let notifier = Notifier::new(sessions, MachineClock::of(Arc::new(StoppedClock)), 1);
        let task = Arc::new(Task { notifier, holder, noted: OnceLock::new() });
        let (notifier, waker) = (&task.notifier, Waker::from(Arc::clone(&task)));
        notifier.waiting.asks(holder, None, StoppedClock.now());
        let mut called = notifier.waiting.called(holder, &StoppedClock);
        assert!(called.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        let granted = PushEvent::Granted { fence: Fence::new(1).unwrap(), lasts: Ttl::DEFAULT };
        assert!(notifier.receive(holder, granted, Stamp::from_micros(1)));
        assert_eq!(task.noted.get(), Some(&Some(true)));
        let wake = called.as_mut().poll(&mut Context::from_waker(&waker));
        let Poll::Ready(leasehold_core::Wake::Granted { since, .. }) = wake else { panic!("{wake:?}") };
        assert_eq!(since, notifier.clock.instant_of(Stamp::from_micros(1)), "when it was granted");
        let unknown = Holder::from_bits(8);
        assert!(!notifier.receive(unknown, granted, Stamp::from_micros(1)));
        assert_eq!(notifier.serving().iter().collect::<Vec<_>>(), [&holder]);
    }
}
