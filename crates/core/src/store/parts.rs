//! What a store can do besides leases: each part a trait of its own.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::{Fault, Notices, Store};
use crate::{
    Attempt, BackgroundReleases, Bare, BoxFuture, BreakAnswer, BreakNote, BreakRecord, Diagnosis, Fence,
    HoldAnswer, Key, KeyState, Mark, Marked, Misuse, RaiseAnswer, ScanPage, ScanPosition, StoreRole,
};

/// The parts that a store has; [`Parts::default`] has none.
#[derive(Clone, Copy, Default)]
#[expect(clippy::exhaustive_structs, reason = "a store names each part that it has")]
pub struct Parts<'a> {
    /// What a quorum asks of its members.
    pub member: Option<&'a dyn MemberStore>,
    /// Looking: who holds what, and what happens.
    pub inspect: Option<&'a dyn InspectStore>,
    /// Marks: what was done, remembered beyond a lease.
    pub marks: Option<&'a dyn MarkStore>,
    /// What operators do.
    pub admin: Option<&'a dyn AdminStore>,
    /// What ties leases to a process of this machine.
    pub process: Option<&'a dyn ProcessStore>,
    /// What benchmarks compare a lock with.
    pub baseline: Option<&'a dyn BaselineStore>,
}

/// Which parts there are; what they are is the store's.
impl fmt::Debug for Parts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts")
            .field("member", &self.member.is_some())
            .field("inspect", &self.inspect.is_some())
            .field("marks", &self.marks.is_some())
            .field("admin", &self.admin.is_some())
            .field("process", &self.process.is_some())
            .field("baseline", &self.baseline.is_some())
            .finish()
    }
}

/// The parts of a store that a caller cannot do without.
impl dyn Store {
    /// What a quorum asks of its members.
    ///
    /// # Errors
    ///
    /// A lasting [`Fault`] if this store cannot be a member.
    pub fn member(&self) -> Result<&dyn MemberStore, Fault> {
        self.parts()
            .member
            .ok_or_else(|| self.lacks("it cannot be a member of a quorum: use another store there"))
    }

    /// Who holds what.
    ///
    /// # Errors
    ///
    /// A lasting [`Fault`] if this store shows nothing.
    pub fn inspector(&self) -> Result<&dyn InspectStore, Fault> {
        self.parts().inspect.ok_or_else(|| self.lacks("it does not show who holds what: use another store"))
    }

    /// What was done.
    ///
    /// # Errors
    ///
    /// A lasting [`Fault`] if this store keeps no marks.
    pub fn marks(&self) -> Result<&dyn MarkStore, Fault> {
        self.parts().marks.ok_or_else(|| self.lacks("it keeps no marks: use another store"))
    }

    /// What operators do.
    ///
    /// # Errors
    ///
    /// A lasting [`Fault`] if this store leaves nothing to operators.
    pub fn admin(&self) -> Result<&dyn AdminStore, Fault> {
        self.parts().admin.ok_or_else(|| self.lacks("it breaks no leases: wait for their end"))
    }

    /// What benchmarks compare a lock with.
    ///
    /// # Errors
    ///
    /// A lasting [`Fault`] if there is nothing below the locks of this store.
    pub fn baseline(&self) -> Result<&dyn BaselineStore, Fault> {
        let lacks = "there is nothing below its locks that they could be measured against";
        self.parts().baseline.ok_or_else(|| self.lacks(lacks))
    }

    /// What this store reports although nobody asked; `None` where it reports nothing.
    #[must_use]
    pub fn notices(&self) -> Option<Box<dyn Notices>> {
        self.parts().inspect?.notices()
    }

    /// What a person should know of how this store is set up, each on one line; nothing that keeps it from serving.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        self.parts().admin.map(AdminStore::warnings).unwrap_or_default()
    }

    /// Looks for what would endanger locks here; see [`AdminStore::diagnose`]. A store without that part finds nothing.
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

    /// See [`ProcessStore::lifeline`].
    #[cfg(unix)]
    #[must_use]
    pub fn lifeline(&self) -> Option<std::os::fd::OwnedFd> {
        self.parts().process?.lifeline()
    }

    /// See [`ProcessStore::background_releases`].
    pub fn background_releases(&self) -> Option<&BackgroundReleases> {
        self.parts().process?.background_releases()
    }

    /// See [`ProcessStore::at_rest`]; where leases are not tied to a process, there is nothing to wait for.
    pub fn at_rest(&self, work: Box<dyn FnOnce() + Send>) {
        match self.parts().process {
            Some(process) => process.at_rest(work),
            None => work(),
        }
    }

    fn lacks(&self, what: &str) -> Fault {
        Fault::lasting(self.name(), what)
    }
}

/// What a quorum asks of a store that is one of its members.
pub trait MemberStore: fmt::Debug + Send + Sync {
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

    /// For attempts with a [`Proposal`](crate::Proposal): lets leases last their ttl from now, and takes again what nobody holds
    /// or waits for; an answer for each attempt, in their order.
    fn rejoin<'a>(&'a self, attempts: &'a [Attempt]) -> BoxFuture<'a, Vec<Result<HoldAnswer, Fault>>>;

    /// Lifts the fence of what the attempt holds to the one that it proposes.
    fn raise<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Result<RaiseAnswer, Fault>>;
}

/// Looking: who holds what, and what happens.
pub trait InspectStore: fmt::Debug + Send + Sync {
    /// Says who holds a key, and who waits for it.
    fn inspect<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<KeyState, Fault>>;

    /// Says the same of all keys that begin with a prefix and are held or waited for, in byte order; each as it was at some
    /// moment of the call. Another program's string for which nobody waits is not among them.
    fn list<'a>(&'a self, prefix: &'a [u8]) -> BoxFuture<'a, Result<Vec<KeyState>, Fault>>;

    /// Goes a part of the way through all that [`list`](InspectStore::list) would show, and says which keys to inspect. A part keeps
    /// the store busy for some milliseconds, however much there is. Where a list is that cheap, it is all of the way.
    fn walk<'a>(&'a self, prefix: &'a [u8], from: ScanPosition) -> BoxFuture<'a, Result<ScanPage, Fault>> {
        let _ = from;
        Box::pin(async move {
            let states = self.list(prefix).await?;
            Ok(ScanPage::whole(states.into_iter().map(|state| state.key).collect()))
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

    /// How many keys [`inspect_all`](InspectStore::inspect_all) looks at by one command.
    fn inspected_at_once(&self) -> usize {
        100
    }

    /// What happens at this store that nobody asked about, from now on, after what is out of order already; `None` where nothing
    /// is ever reported. A reader that stops reading loses what comes meanwhile, and costs the store nothing.
    fn notices(&self) -> Option<Box<dyn Notices>> {
        None
    }
}

/// Marks: what was done, remembered beyond a lease.
pub trait MarkStore: fmt::Debug + Send + Sync {
    /// If the attempt still holds all its keys, leaves a mark at each that says that what they stand for was done. It stays for so
    /// long, on a disk where the store has one of its own: when this resolves, no crash takes it back.
    fn mark<'a>(
        &'a self,
        attempt: &'a Attempt,
        mark: &'a Mark,
        keep: Duration,
    ) -> BoxFuture<'a, Result<HoldAnswer, Fault>>;

    /// Says whether what a key stands for was done, and what time it is at the store.
    fn marked<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Marked, Fault>>;

    /// Takes back the mark of a key, so that what it stands for counts as not done; says which mark that was. Whoever is at it now may
    /// leave another one. When this resolves, it is as durable as a mark.
    fn forget<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Mark>, Fault>>;

    /// The marks of all keys that begin with a prefix, in byte order, each with the time at the store. A list takes as long as one of
    /// [`InspectStore::list`]; what is marked or forgotten meanwhile may be missing or there.
    fn list_marks<'a>(&'a self, prefix: &'a [u8]) -> BoxFuture<'a, Result<Vec<(Key, Marked)>, Fault>>;
}

/// What operators do.
pub trait AdminStore: fmt::Debug + Send + Sync {
    /// Ends the lease on a key whoever holds it, if its fence is this, and hands the key on. Its holder is notified at once where
    /// [`notices`](InspectStore::notices) reach it; otherwise its next renewal finds out. In the same step it leaves a record of
    /// what was broken and the note, for [`BreakRecord::KEPT_FOR`].
    fn break_lease<'a>(
        &'a self,
        key: &'a Key,
        fence: Fence,
        note: &'a BreakNote,
    ) -> BoxFuture<'a, Result<BreakAnswer, Fault>>;

    /// The last break of a key, if that was within the last [`BreakRecord::KEPT_FOR`].
    fn last_break<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<BreakRecord>, Fault>>;

    /// The same of all keys that begin with a prefix, in byte order. It takes as long as [`InspectStore::list`].
    fn list_breaks<'a>(&'a self, prefix: &'a [u8]) -> BoxFuture<'a, Result<Vec<BreakRecord>, Fault>>;

    /// Looks for what would endanger locks here, in the role that the store has. Changes nothing, costs the store a bounded number of
    /// small questions, and does not fail: what cannot be asked or does not answer is a finding.
    fn diagnose(&self, role: StoreRole) -> BoxFuture<'_, Diagnosis> {
        let _ = role;
        Box::pin(async { Diagnosis::default() })
    }

    /// What a person should know of how this store is set up, each on one line; nothing that keeps it from serving.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }
}

/// What ties leases to a process of this machine.
pub trait ProcessStore: fmt::Debug + Send + Sync {
    /// What the leases of this store depend on besides their ends: they last only as long as some process has this descriptor, or
    /// a copy of it, open. It may block shortly.
    #[cfg(unix)]
    fn lifeline(&self) -> Option<std::os::fd::OwnedFd> {
        None
    }

    /// What this store still releases after it answered, where it does such a thing. A process that ends waits for it.
    fn background_releases(&self) -> Option<&BackgroundReleases> {
        None
    }

    /// Does something while no request of this store is half done, and begins none meanwhile where a half one would keep others from
    /// the store: for a caller that stops this process. It blocks until that is done.
    fn at_rest(&self, work: Box<dyn FnOnce() + Send>);
}

/// What benchmarks compare a lock with.
pub trait BaselineStore: fmt::Debug + Send + Sync {
    /// Does the least that could keep two holders apart at this store. No lock is made of it.
    fn bare<'a>(&'a self, what: &'a Bare) -> BoxFuture<'a, Result<(), Fault>>;
}
