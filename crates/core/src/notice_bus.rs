//! Notices: what a store reports without being asked, to every reader.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, Weak};
use std::task::{Poll, Waker};

use crate::{BoxFuture, Fault, Holder, locked};

/// The notices of a store, for one reader.
pub trait Notices: fmt::Debug + Send {
    /// The next notice; cancel safe. It never resolves again once the store is gone.
    fn next(&mut self) -> BoxFuture<'_, Notice>;
}

/// An event at a store that nobody asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// Somebody may have broken this attempt's lease: it should ask. On a server, anybody who may
    /// publish can send this.
    Broken {
        /// The holder.
        holder: Holder,
    },
    /// Waiters cannot be notified of their turn for now, and poll instead.
    PushDown {
        /// The reason, and the remedy if there is one.
        fault: Fault,
    },
    /// Waiters are notified of their turn again.
    PushBack {
        /// The store, without any password.
        store: Arc<str>,
    },
    /// A member of a quorum fails or refuses requests, after it had served them.
    MemberDown {
        /// The fault, which names the member.
        fault: Fault,
    },
    /// A member of a quorum serves requests again.
    MemberBack {
        /// The member, without any password.
        store: Arc<str>,
    },
    /// Notices came faster than they were read: this many were dropped.
    Missed {
        /// The number of dropped notices.
        notices: u64,
    },
}

/// Broadcasts notices to everybody who has started to read.
///
/// A slow reader costs at most a bounded number of notices; beyond that it learns how many it has
/// missed. Without readers, nothing is kept.
#[derive(Debug, Default)]
pub struct NoticeBus {
    readers: Mutex<Vec<Weak<Mutex<Inbox>>>>,
}

/// The notices that one reader has not read yet.
#[derive(Debug, Default)]
struct Inbox {
    notices: VecDeque<Notice>,
    missed: u64,
    task: Option<Waker>,
}

impl Inbox {
    /// Far more than happens between two turns of a reader, in little memory.
    const ROOM: usize = 1024;
}

impl NoticeBus {
    /// Reads all notices from now on.
    #[must_use]
    pub fn read(&self) -> Box<dyn Notices> {
        self.read_after([])
    }

    /// Reads these notices about the current state, and then all notices from now on. The caller
    /// makes sure that nothing changes meanwhile.
    #[must_use]
    pub fn read_after(&self, so_far: impl IntoIterator<Item = Notice>) -> Box<dyn Notices> {
        let notices = so_far.into_iter().collect();
        let inbox = Arc::new(Mutex::new(Inbox { notices, ..Inbox::default() }));
        let mut readers = locked(&self.readers);
        readers.retain(|reader| reader.strong_count() > 0);
        readers.push(Arc::downgrade(&inbox));
        Box::new(Reader(inbox))
    }

    /// Sends a notice to all readers.
    pub fn say(&self, notice: &Notice) {
        let mut woken = Vec::new();
        locked(&self.readers).retain(|reader| {
            let Some(inbox) = reader.upgrade() else { return false };
            let mut inbox = locked(&inbox);
            if inbox.notices.len() < Inbox::ROOM {
                inbox.notices.push_back(notice.clone());
            } else {
                inbox.missed += 1;
            }
            woken.extend(inbox.task.take());
            true
        });
        // After unlocking: a woken reader may read at once.
        woken.into_iter().for_each(Waker::wake);
    }
}

#[derive(Debug)]
struct Reader(Arc<Mutex<Inbox>>);

impl Notices for Reader {
    fn next(&mut self) -> BoxFuture<'_, Notice> {
        Box::pin(poll_fn(|context| {
            let mut inbox = locked(&self.0);
            if let Some(notice) = inbox.notices.pop_front() {
                return Poll::Ready(notice);
            }
            if inbox.missed > 0 {
                return Poll::Ready(Notice::Missed { notices: std::mem::take(&mut inbox.missed) });
            }
            inbox.task = Some(context.waker().clone());
            Poll::Pending
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::task::Context;

    use super::*;
    use crate::Holder;
    use crate::by_hand::Woken;

    fn broken(bits: u128) -> Notice {
        Notice::Broken { holder: Holder::from_bits(bits) }
    }

    fn poll(notices: &mut dyn Notices) -> Poll<Notice> {
        notices.next().as_mut().poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn every_reader_receives_the_notices_since_it_began_to_read() {
        let (board, woken) = (NoticeBus::default(), Arc::new(Woken::default()));
        board.say(&broken(1));
        let mut one = board.read();
        let waker = Waker::from(woken.clone());
        assert_eq!(one.next().as_mut().poll(&mut Context::from_waker(&waker)), Poll::Pending);
        board.say(&broken(2));
        assert_eq!(woken.times(), 1);
        let mut other = board.read();
        board.say(&broken(3));
        assert_eq!(poll(&mut *one), Poll::Ready(broken(2)));
        for reader in [&mut one, &mut other] {
            assert_eq!(poll(&mut **reader), Poll::Ready(broken(3)));
            assert_eq!(poll(&mut **reader), Poll::Pending);
        }
    }

    #[test]
    fn a_new_reader_first_gets_the_current_state() {
        let board = NoticeBus::default();
        let mut reader = board.read_after([broken(1), broken(2)]);
        board.say(&broken(3));
        for n in 1..=3 {
            assert_eq!(poll(&mut *reader), Poll::Ready(broken(n)));
        }
        assert_eq!(poll(&mut *reader), Poll::Pending);
    }

    #[test]
    fn a_slow_reader_learns_how_many_it_missed() {
        let board = NoticeBus::default();
        let mut slow = board.read();
        for n in 0..Inbox::ROOM as u128 + 5 {
            board.say(&broken(n));
        }
        for n in 0..Inbox::ROOM as u128 {
            assert_eq!(poll(&mut *slow), Poll::Ready(broken(n)));
        }
        assert_eq!(poll(&mut *slow), Poll::Ready(Notice::Missed { notices: 5 }));
        board.say(&broken(7));
        assert_eq!(poll(&mut *slow), Poll::Ready(broken(7)));
    }

    #[test]
    fn a_reader_that_stopped_reading_is_forgotten() {
        let board = NoticeBus::default();
        let reads = board.read();
        for _ in 0..3 {
            drop(board.read());
        }
        assert!(locked(&board.readers).len() <= 2, "by the next reader, if nothing ever happens");
        drop(reads);
        let _reads = board.read();
        drop(board.read());
        board.say(&broken(1));
        assert_eq!(locked(&board.readers).len(), 1);
    }
}
