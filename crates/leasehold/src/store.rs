//! The building blocks for a store of your own.
//!
//! A store implements [`Store`], ten methods about leases. In [`Store::parts`] it lists its other
//! abilities: to be a member of a quorum, to show holders, to keep marks, to transfer a lease, to
//! serve operators. The functions of [`serve`] decide what a request does to the [`Records`] of its
//! keys. A store loads these records, calls the function, saves the changes, and delivers the
//! pushes. Then [`LocksBuilder::over`](crate::LocksBuilder::over) creates locks in it.
//!
//! The example `own_store` is a complete store. It passes the same checks as every store of this
//! crate.

pub use leasehold_core::{
    AdminStore, ApplyContext, Attempt, BackgroundRelease, BackgroundReleases, Baseline, BaselineStore,
    BatchServed, BeginCleanup, BoxFuture, BreakAnswer, BreakNote, BreakRecord, Channel, ClockSeen, Content,
    Diagnosis, Family, Fault, FaultKind, GrantAnswer, HoldAnswer, InspectStore, Instant, LastFence,
    LeaseBreak, Limits, Lock, MarkStore, Marked, MemberStore, Nonce, Notice, NoticeBus, Notices, Parts,
    ProcessStore, Proof, Proposal, Push, PushEvent, Quarantined, QueueEntry, QueuePosition, RaiseAnswer,
    Records, ScanPage, ScanPosition, Served, Share, Shares, Store, StoreFuture, StoreRole, Subscribers,
    Successor, Ticket, TransferStore, Unclaimed, VotingStore, Wait, WaitMode, WaitQueue, WaiterRegistry,
    Wake, serve,
};
