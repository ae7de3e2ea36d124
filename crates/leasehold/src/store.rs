//! What it takes to write a store of your own.
//!
//! A store implements [`Store`], ten methods about leases, and names in [`Store::parts`] what it can do besides: be a member of a
//! quorum, show who holds what, keep marks, serve operators. What a request does is decided by the functions of [`serve`], over the
//! [`Records`] of its keys; a store loads these, calls the function, saves what changed, and delivers the pushes. Then
//! [`LocksBuilder::over`](crate::LocksBuilder::over) makes locks of it.
//!
//! The example `own_store` is such a store, whole. It passes the list of checks that every store of this crate passes.

pub use leasehold_core::{
    AdminStore, Attempt, Bare, BaselineStore, Bookmark, BoxFuture, BreakAnswer, BreakNote, BreakRecord,
    Bulletin, Channel, Diagnosis, Ears, Fault, FaultKind, GrantAnswer, HoldAnswer, InspectStore, Instant,
    Limits, Manner, MarkStore, Marked, MemberStore, News, Nonce, Notice, Notices, Parts, Place, ProcessStore,
    Proof, Proposal, Push, Quarantined, RaiseAnswer, Records, Scene, Served, Store, StoreRole, Stretch,
    Ticket, Wait, Waiting, Wake, serve,
};
