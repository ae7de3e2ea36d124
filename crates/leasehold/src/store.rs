//! The building blocks for a store of your own.
//!
//! A store implements [`Store`], ten methods about leases. In [`Store::parts`] it lists its other
//! abilities: to be a member of a quorum, to show holders, to keep marks, to serve operators. The
//! functions of [`serve`] decide what a request does to the [`Records`] of its keys. A store loads
//! these records, calls the function, saves the changes, and delivers the pushes. Then
//! [`LocksBuilder::over`](crate::LocksBuilder::over) creates locks in it.
//!
//! The example `own_store` is a complete store. It passes the same checks as every store of this
//! crate.

pub use leasehold_core::{
    AdminStore, Attempt, Bare, BaselineStore, Bookmark, BoxFuture, BreakAnswer, BreakNote, BreakRecord,
    Bulletin, Channel, Diagnosis, Ears, Fault, FaultKind, GrantAnswer, HoldAnswer, InspectStore, Instant,
    Limits, Manner, MarkStore, Marked, MemberStore, News, Nonce, Notice, Notices, Parts, Place, ProcessStore,
    Proof, Proposal, Push, Quarantined, RaiseAnswer, Records, Scene, Served, Store, StoreRole, Stretch,
    Ticket, Wait, Waiting, Wake, serve,
};
