//! The quorum store: a majority of independent stores.
//!
//! `leasehold_core::Round` and `Ballot` count the votes. This module calls the members, each call
//! in a separate task, so that nobody waits for slow members. It also undoes the effects of calls
//! that nobody waits for any more.

mod asking;
mod attempts;
mod batch_request;
mod batching;
mod breaking;
mod calls;
mod diagnosing;
mod keeping;
mod looking;
mod marking;
mod member;
mod releasing;
mod state;
mod url;

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{
    Attempt, BackgroundReleases, Ballot, BoxFuture, Claim, Fault, Fence, GrantAnswer, HoldAnswer, Limits,
    Misuse, Mode, Parts, ProcessStore, QuorumReport, Runtime, Store, StoreFuture, Ttl, Vote, VotingStore,
    WaitMode, Wake,
};

use state::QuorumState;

/// A store made of other stores, its members: a lock is held once a majority of them grants it.
///
/// The members are independent: of any kind, in any mix, and not replicas of each other. They are
/// opened when they are needed, so a minority may be down. A member that restarted without its
/// state abstains until every lease that it may have forgotten has ended. `max_ttl` bounds that
/// time, so all users of the same members must name the same value.
///
/// All users should list the members in the same order, because a waiter joins the queue of the
/// first member that answers.
///
/// # What this does not promise
///
/// A member that forgets leases without a restart (for example, because an old snapshot was loaded
/// by hand) is not noticed. Members that lose their state may repeat a fence if their clocks differ
/// by more than `max_ttl` less 3 s.
///
/// ```no_run
/// # #[cfg(feature = "redis")]
/// # fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use leasehold::{Locks, QuorumStore, RedisStore, Runtime, Store, TokioRuntime};
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// let runtime: Arc<dyn Runtime> = Arc::new(TokioRuntime::current().ok_or("no runtime")?);
/// let mut members: Vec<Arc<dyn Store>> = Vec::new();
/// for url in ["redis://a", "redis://b", "redis://c"] {
///     members.push(Arc::new(RedisStore::from_url(url, runtime.clone())?));
/// }
/// let quorum = QuorumStore::new(members, Duration::from_secs(60), runtime)?;
/// let locks = Locks::builder().over(Arc::new(quorum))?;
/// # drop(locks);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[doc(alias = "redlock")]
pub struct QuorumStore {
    quorum: Arc<QuorumState>,
}

impl QuorumStore {
    /// A majority of these stores, with no lease longer than `max_ttl`. This opens nothing.
    ///
    /// # Errors
    ///
    /// [`Misuse::NoMembers`], [`Misuse::SameMemberTwice`], [`Misuse::NoMember`],
    /// [`Misuse::MaxTtlTooShort`], and the errors of [`Ttl::new`].
    pub fn new(
        members: impl IntoIterator<Item = Arc<dyn Store>>,
        max_ttl: Duration,
        runtime: Arc<dyn Runtime>,
    ) -> Result<Self, Misuse> {
        if max_ttl < Fence::LEAST_MAX_TTL {
            return Err(Misuse::MaxTtlTooShort { asked: max_ttl });
        }
        let max_ttl = Ttl::new(max_ttl)?;
        let members: Vec<_> = members.into_iter().collect();
        let mut names: Vec<_> = members.iter().map(|member| member.name().to_owned()).collect();
        let name = format!("quorum of {}", names.join(", "));
        names.sort_unstable();
        if names.is_empty() {
            return Err(Misuse::NoMembers);
        }
        for store in &members {
            let Some(member) = store.parts().member else {
                let (name, reason) = (store.name().to_owned(), "use another store there".to_owned());
                return Err(Misuse::NoMember { name, reason });
            };
            member.as_member()?;
        }
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Misuse::SameMemberTwice { name: twice[0].clone() });
        }
        Ok(Self { quorum: Arc::new(QuorumState::new(name, members, max_ttl, runtime)) })
    }

    /// The longest TTL of a quorum whose URL names none: twice the default TTL.
    pub const MAX_TTL_OF_URL: Duration = Duration::from_secs(60);

    /// The URLs in a quorum's URL, `quorum:[max-ttl=TIME,]URL,URL…`, and the longest TTL if it
    /// names one; `None` if this is the URL of another kind of store.
    /// [`Locks::connect`](crate::Locks::connect) takes such a URL as it is; this function is for
    /// programs that show or check it.
    ///
    /// ```
    /// use leasehold::QuorumStore;
    /// let quorum = QuorumStore::members_in("quorum:redis://a,redis://b,redis://c")?;
    /// assert_eq!(quorum, Some((vec!["redis://a", "redis://b", "redis://c"], None)));
    /// # Ok::<(), leasehold::Misuse>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Misuse::Url`], when the longest TTL cannot be read.
    pub fn members_in(url: &str) -> Result<Option<url::Members<'_>>, Misuse> {
        url::members_in(url)
    }

    /// The number of attempts with calls in flight or leases at members. For tests and diagnosis.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.quorum.attempts.len()
    }

    /// A second check: the locks refuse such a request before they call the store.
    fn out_of_reach(&self, attempt: &Attempt) -> Option<Fault> {
        let admitted = self.admit(&attempt.claim).err().map(|misuse| Fault::lasting(self.name(), misuse));
        admitted.or_else(|| self.too_long(attempt))
    }

    fn too_long(&self, attempt: &Attempt) -> Option<Fault> {
        let misuse = Misuse::TtlOverLongest { asked: attempt.ttl, longest: self.quorum.settings.max_ttl };
        (attempt.ttl > self.quorum.settings.max_ttl).then(|| Fault::lasting(self.name(), misuse))
    }
}

impl Store for QuorumStore {
    fn name(&self) -> &str {
        &self.quorum.settings.name
    }

    /// The widest limits of all members.
    fn limits(&self) -> Limits {
        Limits::with_drift(self.quorum.settings.drift).with_longest_ttl(self.quorum.settings.max_ttl)
    }

    /// Any two majorities have a member in common, which keeps a writer from readers. Three
    /// majorities need not have one in common: with three members and two permits, each member
    /// could count two holders, and three would hold permits.
    fn admit(&self, claim: &Claim) -> Result<(), Misuse> {
        if claim.wants().iter().any(|want| matches!(want.mode, Mode::Permits { .. })) {
            return Err(Misuse::PermitsOfAQuorum { name: self.name().into() });
        }
        // A member that can never serve the claim would be missing from every majority.
        self.quorum.members.iter().try_for_each(|member| member.store.admit(claim))
    }

    fn open(&self) -> StoreFuture<'_, ()> {
        Box::pin(async {
            let quorum = &self.quorum;
            let mut ballot = Ballot::new(quorum.members.len());
            let open = |store: Arc<dyn Store>| async move { store.open().await };
            quorum
                .ask_all(quorum.look_limit(), open, |member, answer| {
                    ballot.handle(member, answer.map(|()| HoldAnswer::Done));
                    ballot.vote() == Vote::Done
                })
                .await;
            quorum.verdict(&ballot, "opened").map(drop)
        })
    }

    fn grant<'a>(&'a self, attempt: &'a Attempt, wait_mode: WaitMode) -> StoreFuture<'a, GrantAnswer> {
        Box::pin(async move {
            match self.out_of_reach(attempt) {
                Some(fault) => Err(fault),
                None => asking::grant(&self.quorum, attempt, wait_mode).await,
            }
        })
    }

    fn renew<'a>(&'a self, attempts: &'a [Attempt]) -> BoxFuture<'a, Vec<Result<HoldAnswer, Fault>>> {
        Box::pin(async move {
            if let Some(fault) = attempts.iter().find_map(|attempt| self.too_long(attempt)) {
                return attempts.iter().map(|_| Err(fault.clone())).collect();
            }
            keeping::renew(&self.quorum, attempts).await
        })
    }

    fn release<'a>(&'a self, attempt: &'a Attempt) -> StoreFuture<'a, HoldAnswer> {
        Box::pin(releasing::release(&self.quorum, attempt))
    }

    fn give_up<'a>(&'a self, attempt: &'a Attempt) -> StoreFuture<'a, ()> {
        Box::pin(releasing::give_up(&self.quorum, attempt))
    }

    fn woken<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Wake> {
        Box::pin(asking::woken(&self.quorum, attempt))
    }

    fn parts(&self) -> Parts<'_> {
        Parts {
            inspect: Some(self),
            marks: Some(self),
            transfer: Some(self),
            admin: Some(self),
            process: Some(self),
            voting: Some(self),
            baseline: Some(self),
            ..Parts::default()
        }
    }
}

impl ProcessStore for QuorumStore {
    #[cfg(unix)]
    fn lifelines(&self) -> Vec<std::os::fd::OwnedFd> {
        self.quorum.members.iter().flat_map(|member| member.store.lifelines()).collect()
    }

    fn background_releases(&self) -> Option<&BackgroundReleases> {
        Some(&self.quorum.releases)
    }

    /// Runs `work` while no member has a request half done.
    fn at_rest(&self, work: Box<dyn FnOnce() + Send>) {
        let within = |work: Box<dyn FnOnce() + Send>, member: &member::Member| -> Box<dyn FnOnce() + Send> {
            let store = Arc::clone(&member.store);
            Box::new(move || store.at_rest(work))
        };
        self.quorum.members.iter().fold(work, within)();
    }
}

impl VotingStore for QuorumStore {
    fn take_report(&self, attempt: &Attempt) -> Option<Arc<QuorumReport>> {
        self.quorum.take_votes(attempt)
    }
}
