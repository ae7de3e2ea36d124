//! The seam between deciding and doing: where leases live.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::lease::Drift;
use crate::tally::Tally;
use crate::{
    Attempt, Bare, Bookmark, BoxFuture, BreakAnswer, Claim, Examination, Fence, GrantAnswer, HoldAnswer,
    Holder, Instant, Key, KeyState, Mark, Marked, Misuse, RaiseAnswer, Seat, Stretch, Ttl,
};

/// Where leases live.
///
/// Every method answers within a time of its own that is small beside a ttl, with a [`Fault`] if it must; retrying is the
/// caller's. None is believed to be cancelled by dropping its future: what was sent may still be done.
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// The place, as a person would write it, without any password.
    fn name(&self) -> &str;

    /// How much earlier than this store a holder must stop believing in its lease.
    fn drift(&self) -> Drift;

    /// The longest ttl that may be asked for; `None` where any is good.
    fn longest_ttl(&self) -> Option<Ttl> {
        None
    }

    /// Refuses a claim that this store can never serve, whoever holds what. Asked before anything is sent.
    ///
    /// # Errors
    ///
    /// A [`Misuse`], which names the store and the remedy.
    fn admit(&self, claim: &Claim) -> Result<(), Misuse> {
        let _ = claim;
        Ok(())
    }

    /// Whether a quorum may count on this store.
    ///
    /// # Errors
    ///
    /// [`Misuse::NoMember`], which says why it may not.
    fn as_member(&self) -> Result<(), Misuse> {
        Ok(())
    }

    /// What tells this place from all others however it is named, such as the id of a server's run; `None` while that is not
    /// known. A quorum refuses to count one place twice.
    fn identity(&self) -> Option<Arc<str>> {
        None
    }

    /// What a person should know of how this store is set up, each on one line; nothing that keeps it from serving.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    /// Makes the store ready, and finds out what would keep it from serving. The other methods do this by themselves.
    fn open(&self) -> BoxFuture<'_, Result<(), Fault>>;

    /// Gives the attempt all keys of its claim, or none. Asking again with the same attempt is no different from asking.
    fn grant<'a>(&'a self, attempt: &'a Attempt, manner: Manner)
    -> BoxFuture<'a, Result<GrantAnswer, Fault>>;

    /// Lets leases last their ttl from now; an answer for each attempt, in their order.
    fn renew<'a>(&'a self, attempts: &'a [Attempt]) -> BoxFuture<'a, Vec<Result<HoldAnswer, Fault>>>;

    /// At a member of a quorum, for attempts with a [`Proposal`](crate::Proposal): lets leases last their ttl from now, and takes
    /// again what nobody holds or waits for; an answer for each attempt, in their order.
    fn rejoin<'a>(&'a self, attempts: &'a [Attempt]) -> BoxFuture<'a, Vec<Result<HoldAnswer, Fault>>> {
        let fault =
            || Err(Fault::lasting(self.name(), "it cannot be a member of a quorum: use another store there"));
        Box::pin(async move { attempts.iter().map(|_| fault()).collect() })
    }

    /// At a member of a quorum: lifts the fence of what the attempt holds to the one that it proposes.
    fn raise<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Result<RaiseAnswer, Fault>> {
        let _ = attempt;
        Box::pin(async move {
            Err(Fault::lasting(self.name(), "it cannot be a member of a quorum: use another store there"))
        })
    }

    /// Takes back what the attempt holds, and its place in line.
    fn release<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Result<HoldAnswer, Fault>>;

    /// Takes back what the attempt holds or may still be given by a request that is under way. When this resolves without a
    /// fault, nothing of the attempt is left and nothing of it can appear any more.
    fn give_up<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Result<(), Fault>>;

    /// If the attempt still holds all its keys, leaves a mark at each that says that what they stand for was done. It stays for so
    /// long, on a disk where the store has one of its own: when this resolves, no crash takes it back.
    fn mark<'a>(
        &'a self,
        attempt: &'a Attempt,
        mark: &'a Mark,
        keep: Duration,
    ) -> BoxFuture<'a, Result<HoldAnswer, Fault>> {
        let _ = (attempt, mark, keep);
        Box::pin(async move { Err(Fault::lasting(self.name(), "it keeps no marks: use another store")) })
    }

    /// Says whether what a key stands for was done, and what time it is at the store.
    fn marked<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Marked, Fault>> {
        let _ = key;
        Box::pin(async move { Err(Fault::lasting(self.name(), "it keeps no marks: use another store")) })
    }

    /// Says who holds a key, and who waits for it.
    fn inspect<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<KeyState, Fault>>;

    /// Says the same of all keys that begin with a prefix and are held or waited for, in byte order; each as it was at some
    /// moment of the call. A string of another program's that nobody waits for is none of our business, and not among them.
    fn list<'a>(&'a self, prefix: &'a [u8]) -> BoxFuture<'a, Result<Vec<KeyState>, Fault>>;

    /// Goes a part of the way through all that [`list`](Store::list) would show, and says which keys to inspect. A part keeps the store
    /// busy for some milliseconds, however much there is. Where a list is that cheap, it is all of the way.
    fn walk<'a>(&'a self, prefix: &'a [u8], from: Bookmark) -> BoxFuture<'a, Result<Stretch, Fault>> {
        let _ = from;
        Box::pin(async move {
            let states = self.list(prefix).await?;
            Ok(Stretch::whole(states.into_iter().map(|state| state.key).collect()))
        })
    }

    /// Says who holds these keys, and who waits for them, in the order of the keys.
    fn inspect_all<'a>(&'a self, keys: &'a [Key]) -> BoxFuture<'a, Result<Vec<KeyState>, Fault>> {
        Box::pin(async move {
            let mut states = Vec::with_capacity(keys.len());
            for key in keys {
                states.push(self.inspect(key).await?);
            }
            Ok(states)
        })
    }

    /// How many keys [`inspect_all`](Store::inspect_all) looks at by one command.
    fn inspected_at_once(&self) -> usize {
        100
    }

    /// Ends the lease on a key whoever holds it, if its fence is this, and hands the key on. Its holder is told at once where
    /// [`notices`](Store::notices) reach it; else its next renewal tells.
    fn break_lease<'a>(&'a self, key: &'a Key, fence: Fence) -> BoxFuture<'a, Result<BreakAnswer, Fault>> {
        let _ = (key, fence);
        Box::pin(async move { Err(Fault::lasting(self.name(), "it breaks no leases: wait for its end")) })
    }

    /// Looks for what would endanger locks here, in the part that it has. Changes nothing, costs the store a bounded number of small
    /// questions, and does not fail: what cannot be asked or does not answer is a finding.
    fn examine(&self, seat: Seat) -> BoxFuture<'_, Examination> {
        let _ = seat;
        Box::pin(async { Examination::default() })
    }

    /// Does what a lock of ours is measured against. No lock is made of it.
    fn bare<'a>(&'a self, what: &'a Bare) -> BoxFuture<'a, Result<(), Fault>> {
        let _ = what;
        Box::pin(async move {
            Err(Fault::lasting(
                self.name(),
                "there is nothing below its locks that they could be measured against",
            ))
        })
    }

    /// Resolves when an attempt that stands in line is told something: that it holds now, or that it should ask again.
    ///
    /// An attempt that was answered with a place needs no timer of its own: the store sees to it that this resolves soon after
    /// its turn has come, also where a holder died or a wake-up was lost. Cancel safe: dropping the future loses no wake-up to
    /// the next call, nor to the next waiter once the attempt gives up.
    fn woken<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Wake>;

    /// What happens at this store that nobody asked about, from now on, after what is out of order already; `None` where nothing is ever told. Whoever stops reading
    /// loses what comes meanwhile, and costs the store nothing.
    fn notices(&self) -> Option<Box<dyn Notices>> {
        None
    }

    /// What the leases of this store hang on besides their ends, where there is such a thing: they last only as long as some
    /// process has this descriptor, or a copy of it, open. It may block shortly.
    #[cfg(unix)]
    fn lifeline(&self) -> Option<std::os::fd::OwnedFd> {
        None
    }

    /// Does something while no request of this store is half done, and begins none meanwhile where a half one would keep the store from
    /// others: for whoever stops this process. It blocks until that is done.
    fn at_rest(&self, work: Box<dyn FnOnce() + Send>) {
        work();
    }
}

/// Whether an attempt that meets a taken key stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Manner {
    /// It goes; the store keeps nothing of it.
    Try,
    /// It waits, until it is granted or given up; a store that has lines keeps its place in one. It does not join a line that is
    /// as long as the limit.
    Wait {
        /// The most that may wait before it; `None`: as many as there are.
        line_limit: Option<u64>,
    },
}

/// What a waiter is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "whoever handles these must handle all of them")]
pub enum Wake {
    /// It holds.
    Granted {
        /// Its fence.
        fence: Fence,
        /// When its lease began, or somewhat earlier.
        since: Instant,
        /// How long the lease is from then, until the first renewal makes it the ttl that was asked for.
        lasts: Ttl,
    },
    /// It should ask again: its turn may have come.
    AskAgain,
}

/// What happens at a store, for one reader.
pub trait Notices: fmt::Debug + Send {
    /// The next thing that happens; cancel safe. It never resolves again once the store is gone.
    fn next(&mut self) -> BoxFuture<'_, Notice>;
}

/// Something that happened at a store and that nobody asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// Somebody broke this attempt's lease: it holds nothing any more.
    Broken {
        /// Whose lease.
        holder: Holder,
        /// At which key.
        key: Key,
    },
    /// Waiters cannot be told of their turn for now, and ask from time to time instead.
    PushDown {
        /// Why, and the remedy where there is one.
        fault: Fault,
    },
    /// Waiters are told of their turn again.
    PushBack {
        /// The store, without any password.
        store: Arc<str>,
    },
    /// A member of a quorum did not do what it was asked, having done so before.
    MemberDown {
        /// Which, and why.
        fault: Fault,
    },
    /// A member of a quorum does what it is asked again.
    MemberBack {
        /// The member, without any password.
        store: Arc<str>,
    },
    /// More happened than was read in time: so many notices were left out.
    Missed {
        /// How many.
        notices: u64,
    },
}

/// Why a store did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fault {
    /// Whether it will pass.
    pub kind: FaultKind,
    /// The store's name, without any password.
    pub store: Arc<str>,
    /// What happened, and the remedy where there is one.
    pub reason: Arc<str>,
    /// Where the store is a quorum: what each member said.
    pub tally: Option<Arc<Tally>>,
}

impl Fault {
    fn new(kind: FaultKind, store: &str, reason: impl fmt::Display) -> Self {
        Self { kind, store: store.into(), reason: reason.to_string().into(), tally: None }
    }

    /// A fault that may pass: no answer, no connection, a server that is starting.
    #[must_use]
    pub fn passing(store: &str, reason: impl fmt::Display) -> Self {
        Self::new(FaultKind::Passing, store, reason)
    }

    /// A fault that stays until somebody mends it: a wrong password, a missing permission.
    #[must_use]
    pub fn lasting(store: &str, reason: impl fmt::Display) -> Self {
        Self::new(FaultKind::Lasting, store, reason)
    }

    /// A member of a quorum abstains.
    #[must_use]
    pub fn quarantined(store: &str, left: Duration) -> Self {
        let left = left.as_secs_f64().ceil();
        let reason = format_args!("quarantined for {left:.0} s more (restarted without its state)");
        Self::new(FaultKind::Quarantined, store, reason)
    }

    /// A quorum to which too few of its members said yes.
    #[must_use]
    pub fn of_quorum(kind: FaultKind, store: &str, tally: Tally) -> Self {
        Self { tally: Some(Arc::new(tally)), ..Self::new(kind, store, "no majority of its stores agreed") }
    }

    /// Whether it stays until somebody mends it.
    #[must_use]
    pub fn is_lasting(&self) -> bool {
        self.kind == FaultKind::Lasting
    }
}

/// Whether a fault will pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaultKind {
    /// It may pass by itself: ask again. What was asked may have been done all the same.
    Passing,
    /// It stays until somebody mends it, and what was asked was not done.
    Lasting,
    /// A member of a quorum abstains, because it may have forgotten leases: it passes, and what was asked was not done.
    Quarantined,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.tally {
            Some(tally) => write!(f, "{}: {tally}", self.store),
            None => write!(f, "{}: {}", self.store, self.reason),
        }
    }
}

impl std::error::Error for Fault {}
