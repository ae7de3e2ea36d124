//! Notices: what a store reports without being asked.

use std::fmt;
use std::sync::Arc;

use super::Fault;
use crate::{BoxFuture, Holder};

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
