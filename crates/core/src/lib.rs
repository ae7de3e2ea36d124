//! The decisions of [Leasehold]: what a lease is and who may have it, without I/O, clock, runtime
//! or dependencies.
//!
//! Time is always an argument. [`apply`] defines the semantics of all stores. [`Acquire`],
//! [`LeaseRenewal`] and [`QuorumAttempt`] are the state machines that a client runs on top:
//! `handle_*` takes inputs, and one `next` returns the output.
//!
//! Programs use the `leasehold` crate. This crate is for authors of a [`Store`] or a [`Runtime`].
//!
//! [Leasehold]: https://docs.rs/leasehold

mod acquire;
mod apply;
mod background;
mod backoff;
mod baseline;
mod batch_queue;
#[cfg(test)]
mod by_hand;
mod claim;
mod compact;
mod contended;
mod fence;
mod finding;
mod holder;
mod in_doubt;
mod key;
mod key_state;
mod lease;
mod lease_renewal;
mod locked;
mod loss;
mod mark;
mod misuse;
mod mode;
mod notice_bus;
mod quorum;
mod quorum_report;
mod records;
mod request;
mod round;
mod round_trips;
mod runtime;
mod scan;
mod server_clock;
mod share;
mod store;
mod transfer;
mod ttl;
mod wait_queue;
mod waiting;

pub use acquire::{Acquire, Granted, Handed, NotGranted, Outcome, Patience, Step};
pub use apply::{ApplyContext, Quarantined, Subscribers, apply};

/// The functions from which [`apply`] chooses, one for each kind of request.
pub mod serve {
    pub use crate::apply::{
        advance, break_lease, forget, grant, inspect, last_break, list_breaks, list_marks, mark, marked,
        raise, rejoin, release, renew, transfer,
    };
}

pub use background::{BackgroundRelease, BackgroundReleases};
pub use backoff::Backoff;
pub use baseline::Baseline;
pub use batch_queue::{AskedInBatch, BatchQueue, Batched, MOST_IN_BATCH, SendBatch};
pub use claim::{Attempt, Claim, Proposal, Signal, Successor, Want};
pub use contended::Contended;
pub use fence::Fence;
pub use finding::{ClockSeen, Diagnosis, Finding, Remedy, Severity, StoreRole};
pub use holder::{Holder, Label};
pub use in_doubt::{ConnectionId, InDoubtGrants, Sending};
pub use key::{Escaped, Key};
pub use key_state::{HolderInfo, KeyState, Owner, Waiter};
pub use lease::{Drift, Lease};
pub use lease_renewal::{LeaseRenewal, Renewal, RenewalStep};
pub use locked::locked;
pub use loss::Loss;
pub use mark::{BreakNote, BreakRecord, LeaseBreak, Mark, Marked};
pub use misuse::Misuse;
pub use mode::{Family, Mode};
pub use notice_bus::{Notice, NoticeBus, Notices};
pub use quorum::{
    Asks, MemberAnswer, MemberRenewal, Question, QuorumAttempt, QuorumProcess, QuorumSettings, QuorumStep,
    QuorumView, QuorumWait, Rejoin,
};
pub use quorum_report::{MemberVote, QuorumReport};
pub use records::{Content, LastFence, Lock, QueueChanges, Records};
pub use request::{
    Answer, BreakAnswer, GrantAnswer, HoldAnswer, Push, PushEvent, QueuePosition, RaiseAnswer, ReadAnswer,
    Request, Served, Wait,
};
pub use round::{Ballot, Round, RoundAction, Vote, majority_of, shown_by_a_majority};
pub use round_trips::{RoundTrips, TripStart};
pub use runtime::{BeginCleanup, BoxFuture, Instant, Runtime, Stamp};
pub use scan::{ScanPage, ScanPosition};
pub use server_clock::{Reading, ServerClock};
pub use share::{Share, Shares};
pub use store::{
    AdminStore, BaselineStore, BatchServed, Fault, FaultCause, FaultKind, InspectStore, Limits, MarkStore,
    MemberStore, Parts, ProcessStore, Store, StoreFuture, TransferStore, VotingStore, WaitMode, Wake,
};
pub use transfer::TransferToken;
pub use ttl::{Ttl, call_limit, url_duration};
pub use wait_queue::{Channel, Nonce, QueueEntry, Ticket, Unclaimed, WaitQueue};
pub use waiting::{Proof, WaiterRegistry};
