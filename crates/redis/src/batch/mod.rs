//! Batches: requests that many callers make at the same time are sent together.
//!
//! One script serves up to [`MOST_IN_BATCH`](leasehold_core::MOST_IN_BATCH) exclusive grants and
//! releases of one key each, and each caller gets its own answer; if a batch cannot serve a request,
//! that is [`BatchAnswer::Other`]. The connection's [`BatchQueue`](leasehold_core::BatchQueue)
//! decides when which requests are sent. A quorum has its own queue, and each of its members gets a
//! whole batch.

mod send;

use std::borrow::Borrow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use leasehold_core::{Attempt, BatchQueue, Batched, Fault, Fence, Instant, Proposal, Stamp, Ttl};
use redis::ServerError;
use tokio::sync::oneshot;

/// The server's answer to one request in a batch.
#[derive(Clone, Debug)]
pub(crate) enum BatchAnswer {
    /// The key is granted; the answer was read at this instant.
    Granted { fence: Fence, heard: Instant },
    /// The batch came after its deadline, by the server's clock.
    TooLate { now: Stamp },
    /// The lease has ended. The batch was sent at this instant.
    Released { sent: Instant },
    /// The script of a single request must serve it.
    Other,
    /// The server refused the script, perhaps in the middle: the result of the request is unknown.
    Refused(ServerError),
}

#[derive(Debug, Default)]
pub(crate) struct Batches {
    queue: BatchQueue<Request<Caller>>,
    /// True for the script, and for that of a member of a quorum, once its text was sent to the
    /// server on this connection.
    knows: [AtomicBool; 2],
    /// The server does not allow this user to run them.
    pub(crate) denied: AtomicBool,
}

pub(crate) type BatchResult = Result<BatchAnswer, Fault>;

/// Waits for the answer to its own request.
#[derive(Debug)]
struct Caller {
    /// Equal for requests of the same key.
    key: u64,
    answer: oneshot::Sender<BatchResult>,
}

/// A request, and who gets its answer.
#[derive(Debug)]
pub(crate) struct Request<To, A = Attempt> {
    attempt: A,
    what: BatchKind,
    /// In a cluster, the slot of the key.
    slot: u16,
    limit: Duration,
    /// If it is not sent by then, it is not sent.
    until: Instant,
    to: To,
}

/// The run of a server that vouches for its leases, if that is needed. A restart is noticed by it.
pub(crate) type Run = Option<Arc<str>>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BatchKind {
    Grant(Run),
    Release,
}

impl<To, A: Borrow<Attempt>> Request<To, A> {
    /// For a grant, the server's run.
    const fn run(&self) -> Option<&Run> {
        match &self.what {
            BatchKind::Grant(run) => Some(run),
            BatchKind::Release => None,
        }
    }

    const fn is_grant(&self) -> bool {
        matches!(self.what, BatchKind::Grant(_))
    }

    /// Equal for grants that one script serves: it has one TTL, one run and one proposal.
    fn script(&self) -> (Option<Run>, Ttl, Option<Proposal>) {
        let attempt = self.attempt.borrow();
        (self.run().cloned(), attempt.ttl, attempt.proposal)
    }
}

impl<To, A: Borrow<Attempt>> Borrow<Attempt> for Request<To, A> {
    fn borrow(&self) -> &Attempt {
        self.attempt.borrow()
    }
}

impl Batched for Request<Caller> {
    fn key(&self) -> u64 {
        self.to.key
    }

    fn limit(&self) -> Duration {
        self.limit
    }

    fn is_wanted(&self) -> bool {
        !self.to.answer.is_closed()
    }
}
