//! What a store reports although nobody asked.

use std::fmt;
use std::sync::Arc;

use super::Fault;
use crate::{BoxFuture, Holder};

/// What happens at a store, for one reader.
pub trait Notices: fmt::Debug + Send {
    /// The next thing that happens; cancel safe. It never resolves again once the store is gone.
    fn next(&mut self) -> BoxFuture<'_, Notice>;
}

/// Something that happened at a store and that nobody asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// Somebody may have broken this attempt's lease: it should ask. On a server anybody who may publish can say so.
    Broken {
        /// Whose lease.
        holder: Holder,
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
