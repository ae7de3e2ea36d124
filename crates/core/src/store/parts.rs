//! The abilities of a store besides leases: each is a separate trait.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::{Fault, Store, StoreFuture, WaitMode};
use crate::{
    Attempt, BackgroundReleases, Baseline, BoxFuture, BreakAnswer, BreakRecord, Diagnosis, Fence,
    GrantAnswer, HoldAnswer, Key, KeyState, LeaseBreak, Mark, Marked, Misuse, Notices, QuorumReport,
    RaiseAnswer, ScanPage, ScanPosition, StoreRole, Successor,
};

/// The parts of a store; [`Parts::default`] has none.
#[derive(Clone, Copy, Default)]
#[expect(clippy::exhaustive_structs, reason = "a store names each part that it has")]
pub struct Parts<'a> {
    /// The requests of a quorum to its members.
    pub member: Option<&'a dyn MemberStore>,
    /// Inspecting keys and reading notices.
    pub inspect: Option<&'a dyn InspectStore>,
    /// Marks: records that outlive a lease.
    pub marks: Option<&'a dyn MarkStore>,
    /// Transferring a lease to another process.
    pub transfer: Option<&'a dyn TransferStore>,
    /// Operations for operators.
    pub admin: Option<&'a dyn AdminStore>,
    /// Ties of leases to a process of this machine.
    pub process: Option<&'a dyn ProcessStore>,
    /// The votes behind the answers of a quorum.
    pub voting: Option<&'a dyn VotingStore>,
    /// The baseline for benchmarks.
    pub baseline: Option<&'a dyn BaselineStore>,
}

/// Shows which parts there are, and not their content.
impl fmt::Debug for Parts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts")
            .field("member", &self.member.is_some())
            .field("inspect", &self.inspect.is_some())
            .field("marks", &self.marks.is_some())
            .field("transfer", &self.transfer.is_some())
            .field("admin", &self.admin.is_some())
            .field("process", &self.process.is_some())
            .field("voting", &self.voting.is_some())
            .field("baseline", &self.baseline.is_some())
            .finish()
    }
}

/// The parts of a store, as errors where they are missing.
impl dyn Store {
    /// The part for members of a quorum.
    ///
    /// # Errors
    ///
    /// A lasting [`Fault`] if this store cannot be a member.
    pub fn member(&self) -> Result<&dyn MemberStore, Fault> {
        self.parts()
            .member
            .ok_or_else(|| self.lacks("it cannot be a member of a quorum: use another store there"))
    }

    /// The part for inspecting keys.
    ///
    /// # Errors
    ///
    /// A lasting [`Fault`] if this store cannot be inspected.
    pub fn inspector(&self) -> Result<&dyn InspectStore, Fault> {
        self.parts().inspect.ok_or_else(|| self.lacks("it does not show who holds what: use another store"))
    }

    /// The part for marks.
    ///
    /// # Errors
    ///
    /// A lasting [`Fault`] if this store keeps no marks.
    pub fn marks(&self) -> Result<&dyn MarkStore, Fault> {
        self.parts().marks.ok_or_else(|| self.lacks("it keeps no marks: use another store"))
    }

    /// The part for handing a lease over.
    ///
    /// # Errors
    ///
    /// A lasting [`Fault`] if this store cannot do that.
    pub fn transfers(&self) -> Result<&dyn TransferStore, Fault> {
        let lacks = "it cannot transfer a lock to another process: use another store";
        self.parts().transfer.ok_or_else(|| self.lacks(lacks))
    }

    /// The part for operators.
    ///
    /// # Errors
    ///
    /// A lasting [`Fault`] if this store has no operations for operators.
    pub fn admin(&self) -> Result<&dyn AdminStore, Fault> {
        self.parts().admin.ok_or_else(|| self.lacks("it breaks no leases: wait for their end"))
    }

    /// The part for benchmarks.
    ///
    /// # Errors
    ///
    /// A lasting [`Fault`] if this store has no baseline.
    pub fn baseline(&self) -> Result<&dyn BaselineStore, Fault> {
        let lacks = "there is nothing below its locks that they could be measured against";
        self.parts().baseline.ok_or_else(|| self.lacks(lacks))
    }

    /// The notices of this store; `None` if it has none.
    #[must_use]
    pub fn notices(&self) -> Option<Box<dyn Notices>> {
        self.parts().inspect?.notices()
    }

    /// Warnings about the settings of this store, one per line; none keeps it from serving.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        self.parts().admin.map(AdminStore::warnings).unwrap_or_default()
    }

    /// Searches for dangers to the locks of this store; see [`AdminStore::diagnose`]. A store
    /// without that part finds nothing.
    pub fn diagnose(&self, role: StoreRole) -> BoxFuture<'_, Diagnosis> {
        match self.parts().admin {
            Some(admin) => admin.diagnose(role),
            None => Box::pin(async { Diagnosis::default() }),
        }
    }

    /// See [`MemberStore::identity`].
    #[must_use]
    pub fn identity(&self) -> Option<Arc<str>> {
        self.parts().member?.identity()
    }

    /// See [`ProcessStore::lifelines`].
    #[cfg(unix)]
    #[must_use]
    pub fn lifelines(&self) -> Vec<std::os::fd::OwnedFd> {
        self.parts().process.map(ProcessStore::lifelines).unwrap_or_default()
    }

    /// See [`ProcessStore::background_releases`].
    pub fn background_releases(&self) -> Option<&BackgroundReleases> {
        self.parts().process?.background_releases()
    }

    /// See [`ProcessStore::at_rest`]; if leases are not tied to a process, there is nothing to wait
    /// for.
    pub fn at_rest(&self, work: Box<dyn FnOnce() + Send>) {
        match self.parts().process {
            Some(process) => process.at_rest(work),
            None => work(),
        }
    }

    /// See [`VotingStore::take_report`].
    #[must_use]
    pub fn take_report(&self, attempt: &Attempt) -> Option<Arc<QuorumReport>> {
        self.parts().voting?.take_report(attempt)
    }

    fn lacks(&self, what: &str) -> Fault {
        Fault::lasting(self.name(), what)
    }
}

/// A member's answers to a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a store answers all requests")]
pub struct BatchServed {
    /// For each grant the fence, or `None` if it was not served.
    pub granted: Vec<Option<Fence>>,
    /// For each release whether it was done.
    pub released: Vec<bool>,
}

impl BatchServed {
    /// Serves a batch by single requests, in their order: for a store whose requests cost little.
    ///
    /// # Errors
    ///
    /// The first [`Fault`]; what was served before it remains.
    pub async fn one_by_one(
        store: &(impl Store + ?Sized),
        grants: &[&Attempt],
        releases: &[&Attempt],
    ) -> Result<Self, Fault> {
        let (mut granted, mut released) = (Vec::new(), Vec::new());
        for attempt in grants {
            granted.push(match store.grant(attempt, WaitMode::Try).await? {
                GrantAnswer::Granted { fence } => Some(fence),
                _ => None,
            });
        }
        for attempt in releases {
            released.push(store.release(attempt).await? == HoldAnswer::Done);
        }
        Ok(Self { granted, released })
    }
}

/// The requests of a quorum to a store that is one of its members.
pub trait MemberStore: fmt::Debug + Send + Sync {
    /// Checks that a quorum may use this store.
    ///
    /// # Errors
    ///
    /// [`Misuse::NoMember`], with the reason.
    fn as_member(&self) -> Result<(), Misuse> {
        Ok(())
    }

    /// An identity that distinguishes this store from all others, whatever its name, such as the id
    /// of a server's run; `None` while it is unknown. A quorum refuses to use one store twice.
    fn identity(&self) -> Option<Arc<str>> {
        None
    }

    /// Returns true if [`serve_batch`](MemberStore::serve_batch) serves requests.
    fn serves_batches(&self) -> bool {
        false
    }

    /// Serves requests for different keys together: grants attempts their keys, which have a
    /// [`Proposal`](crate::Proposal), and releases others. A request that it does not serve is made
    /// alone. So it has changed nothing, or no more than that request will.
    fn serve_batch<'a>(
        &'a self,
        grants: &'a [&'a Attempt],
        releases: &'a [&'a Attempt],
    ) -> StoreFuture<'a, BatchServed> {
        let served = BatchServed { granted: vec![None; grants.len()], released: vec![false; releases.len()] };
        Box::pin(async { Ok(served) })
    }

    /// For attempts with a [`Proposal`](crate::Proposal): extends leases to their TTL from now, and
    /// takes those again that nobody holds or waits for. Answers for each attempt, in order.
    fn rejoin<'a>(&'a self, attempts: &'a [Attempt]) -> BoxFuture<'a, Vec<Result<HoldAnswer, Fault>>>;

    /// Raises the fence of what the attempt holds to the proposed one.
    fn raise<'a>(&'a self, attempt: &'a Attempt) -> StoreFuture<'a, RaiseAnswer>;
}

/// Inspecting keys and reading notices.
pub trait InspectStore: fmt::Debug + Send + Sync {
    /// Returns the holders of a key and its waiters.
    fn inspect<'a>(&'a self, key: &'a Key) -> StoreFuture<'a, KeyState>;

    /// The same for all keys with this prefix that are held or waited for, in byte order. Each key
    /// is shown as it was at some moment during the call. Another program's string is left out
    /// unless somebody waits for it.
    fn list<'a>(&'a self, prefix: &'a [u8]) -> StoreFuture<'a, Vec<KeyState>>;

    /// The same for the part of the store that can be reached, with a fault for each part that cannot.
    fn list_reachable<'a>(&'a self, prefix: &'a [u8]) -> StoreFuture<'a, (Vec<KeyState>, Vec<Fault>)> {
        Box::pin(async move { Ok((self.list(prefix).await?, Vec::new())) })
    }

    /// Scans a part of everything that [`list`](InspectStore::list) would show, and returns the
    /// keys to inspect. One part keeps the store busy for some milliseconds, however many keys
    /// there are. If a list is that cheap, one part is the whole scan.
    fn scan<'a>(&'a self, prefix: &'a [u8], from: ScanPosition) -> StoreFuture<'a, ScanPage> {
        let _ = from;
        Box::pin(async move {
            let states = self.list(prefix).await?;
            Ok(ScanPage::whole(states.into_iter().map(|state| state.key).collect()))
        })
    }

    /// Returns the holders of these keys and their waiters, in the order of the keys.
    fn inspect_all<'a>(&'a self, keys: &'a [Key]) -> StoreFuture<'a, Vec<KeyState>> {
        Box::pin(async move {
            let mut states = Vec::with_capacity(keys.len());
            for key in keys {
                states.push(self.inspect(key).await?);
            }
            Ok(states)
        })
    }

    /// How many keys [`inspect_all`](InspectStore::inspect_all) inspects in one command.
    fn inspected_at_once(&self) -> usize {
        100
    }

    /// The notices of this store from now on, after those about current problems; `None` if it
    /// never reports anything. A reader that stops reading loses notices, and costs the store
    /// nothing.
    fn notices(&self) -> Option<Box<dyn Notices>> {
        None
    }
}

/// Marks: records that outlive a lease.
pub trait MarkStore: fmt::Debug + Send + Sync {
    /// If the attempt still holds all its keys, leaves a mark at each of them, for this long. A
    /// store with its own disk has written it when this resolves, so that no crash can undo it.
    fn mark<'a>(
        &'a self,
        attempt: &'a Attempt,
        mark: &'a Mark,
        keep: Duration,
    ) -> StoreFuture<'a, HoldAnswer>;

    /// Returns whether a key is marked, and the store's time.
    fn marked<'a>(&'a self, key: &'a Key) -> StoreFuture<'a, Marked>;

    /// Deletes the mark of a key, so that its job counts as not done, and returns the mark. A
    /// process that is doing the job now may leave another one. When this resolves, the deletion is
    /// as durable as a mark.
    fn forget<'a>(&'a self, key: &'a Key) -> StoreFuture<'a, Option<Mark>>;

    /// The marks of all keys with this prefix, in byte order, each with the store's time. This
    /// takes as long as [`InspectStore::list`]; changes during the call may or may not be included.
    fn list_marks<'a>(&'a self, prefix: &'a [u8]) -> StoreFuture<'a, Vec<(Key, Marked)>>;
}

/// Transferring a lease to another process.
pub trait TransferStore: fmt::Debug + Send + Sync {
    /// If the attempt still holds all its keys, makes the successor their holder, in one step: of
    /// several successors of the same attempt, at most one succeeds. Extends the lease to the
    /// attempt's TTL from now, unless it lasts longer already. The fences remain. Until its first
    /// renewal, the lease depends on no process, unless the successor is the holder itself.
    fn transfer<'a>(&'a self, attempt: &'a Attempt, successor: &'a Successor) -> StoreFuture<'a, HoldAnswer>;

    /// Notes that a successor in this process is the holder, with this fence, and will be renewed. A
    /// quorum needs the fence, so that a member that lost its state can take the lease again.
    fn adopted(&self, successor: &Attempt, fence: Fence) {
        let _ = (successor, fence);
    }
}

/// Operations for operators.
pub trait AdminStore: fmt::Debug + Send + Sync {
    /// Ends the lease on a key, whoever holds it, if it has this fence, and hands the key over. The
    /// holder is notified at once if [`notices`](InspectStore::notices) reach it; otherwise its
    /// next renewal finds out. The same step records the break, for
    /// [`BreakRecord::KEPT_FOR`].
    fn break_lease<'a>(&'a self, key: &'a Key, lease: &'a LeaseBreak) -> StoreFuture<'a, BreakAnswer>;

    /// The last break of a key, if it was within the last [`BreakRecord::KEPT_FOR`].
    fn last_break<'a>(&'a self, key: &'a Key) -> StoreFuture<'a, Option<BreakRecord>>;

    /// The same for all keys with this prefix, in byte order. This takes as long as
    /// [`InspectStore::list`].
    fn list_breaks<'a>(&'a self, prefix: &'a [u8]) -> StoreFuture<'a, Vec<BreakRecord>>;

    /// Searches for dangers to the locks of this store, which has this role. This changes nothing,
    /// costs the store a bounded number of small requests, and does not fail: a question that
    /// cannot be asked or is not answered is a finding.
    fn diagnose(&self, role: StoreRole) -> BoxFuture<'_, Diagnosis> {
        let _ = role;
        Box::pin(async { Diagnosis::default() })
    }

    /// Warnings about the settings of this store, one per line; none keeps it from serving.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Ties of leases to a process of this machine.
pub trait ProcessStore: fmt::Debug + Send + Sync {
    /// The descriptors on which the leases of this store depend in addition to their ends: they last
    /// only while some process has these, or copies of them, open. This may block briefly.
    #[cfg(unix)]
    fn lifelines(&self) -> Vec<std::os::fd::OwnedFd> {
        Vec::new()
    }

    /// The releases that this store still makes after it has answered, if there are any. A process
    /// that ends waits for them.
    fn background_releases(&self) -> Option<&BackgroundReleases> {
        None
    }

    /// Runs `work` while no request of this store is half done, for a caller that stops this
    /// process. Meanwhile no request starts that would block the store for others if it were half
    /// done. This blocks until `work` has run.
    fn at_rest(&self, work: Box<dyn FnOnce() + Send>);
}

/// The votes behind the answers of a quorum.
pub trait VotingStore: fmt::Debug + Send + Sync {
    /// Returns, once, how the members voted on the attempt's last request, if that was a release or
    /// was refused because somebody else holds the key or the attempt does not. A fault contains
    /// its votes. They are kept for some seconds.
    fn take_report(&self, attempt: &Attempt) -> Option<Arc<QuorumReport>>;
}

/// The baseline for benchmarks.
pub trait BaselineStore: fmt::Debug + Send + Sync {
    /// Does the least that could exclude two holders in this store. It is not a lock.
    fn run_baseline<'a>(&'a self, what: &'a Baseline) -> StoreFuture<'a, ()>;
}
