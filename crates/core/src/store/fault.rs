//! Faults: why a store did not serve a request.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::quorum_report::QuorumReport;

/// Why a store did not serve a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Fault {
    /// Passing or lasting.
    pub kind: FaultKind,
    /// Its cause, as far as it is known.
    pub cause: FaultCause,
    /// The store's name, without any password.
    pub store: Arc<str>,
    /// The cause, and the remedy if there is one.
    pub reason: Arc<str>,
    /// For a quorum: the vote of each member.
    pub quorum_report: Option<Arc<QuorumReport>>,
    /// True if the request was not sent.
    unsent: bool,
}

impl Fault {
    fn new(kind: FaultKind, store: &str, reason: impl fmt::Display) -> Self {
        let (store, reason) = (store.into(), reason.to_string().into());
        Self { kind, cause: FaultCause::Other, store, reason, quorum_report: None, unsent: false }
    }

    /// The same fault with a known cause.
    #[must_use]
    pub fn caused_by(self, cause: FaultCause) -> Self {
        Self { cause, ..self }
    }

    /// The same fault of a request that was not sent.
    #[must_use]
    pub fn unsent(self) -> Self {
        Self { unsent: true, ..self }
    }

    /// A fault that may pass: no answer, no connection, a server that is starting.
    #[must_use]
    pub fn passing(store: &str, reason: impl fmt::Display) -> Self {
        Self::new(FaultKind::Passing, store, reason)
    }

    /// A fault that lasts until somebody repairs it: a wrong password, a missing permission.
    #[must_use]
    pub fn lasting(store: &str, reason: impl fmt::Display) -> Self {
        Self::new(FaultKind::Lasting, store, reason)
    }

    /// The fault of a member of a quorum that abstains.
    #[must_use]
    pub fn quarantined(store: &str, left: Duration) -> Self {
        let left = left.as_secs_f64().ceil();
        let reason = format!("quarantined for {left:.0} s more (first use, or restarted without its state)");
        Self::new(FaultKind::Quarantined, store, reason)
    }

    /// The fault of a quorum with too few votes.
    #[must_use]
    pub fn of_quorum(kind: FaultKind, store: &str, quorum_report: QuorumReport) -> Self {
        let cause = quorum_report.faults().next().map_or(FaultCause::Other, |fault| fault.cause);
        let fault = Self::new(kind, store, "no majority of its stores agreed").caused_by(cause);
        Self { quorum_report: Some(Arc::new(quorum_report)), ..fault }
    }

    /// Returns true if it lasts until somebody repairs it.
    #[must_use]
    pub fn is_lasting(&self) -> bool {
        self.kind == FaultKind::Lasting
    }

    /// Returns true if the request was certainly not served, so that nothing of it has to be undone.
    #[must_use]
    pub fn is_unserved(&self) -> bool {
        self.unsent || self.is_lasting()
    }
}

/// The cause of a fault. [`FaultKind`] says whether it passes.
///
/// ```
/// use leasehold_core::{Fault, FaultCause};
///
/// fn advice(fault: &Fault) -> &'static str {
///     match fault.cause {
///         FaultCause::Authentication | FaultCause::Permission => "check the user and its ACL",
///         FaultCause::ConnectionRefused => "start the server, or check the port",
///         _ if fault.is_lasting() => "repair the store",
///         _ => "try again",
///     }
/// }
/// let refused = Fault::passing("redis://127.0.0.1", "nobody listens");
/// assert_eq!(advice(&refused.caused_by(FaultCause::ConnectionRefused)), "start the server, or check the port");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FaultCause {
    /// None of the causes below.
    #[default]
    Other,
    /// No answer within the time limit of a call.
    TimedOut,
    /// Nobody listens at the address.
    ConnectionRefused,
    /// The connection broke, or could not be made.
    Connection,
    /// The host name has no address.
    NameResolution,
    /// TLS: a certificate or the handshake was not accepted.
    Tls,
    /// The user or the password was not accepted, or is missing.
    Authentication,
    /// The user may not do this.
    Permission,
    /// A key has a value of another type.
    WrongType,
    /// The store answered that it does not serve requests now: it is starting, it is a replica, it
    /// has too few replicas, or its cluster is down; or another process keeps a file from serving.
    NotServing,
    /// The store has no memory left.
    OutOfMemory,
    /// The store has no disk space left.
    DiskFull,
}

/// The duration of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FaultKind {
    /// It may pass without any repair: ask again. The request may have been served nevertheless,
    /// unless the fault says otherwise ([`Fault::is_unserved`]).
    Passing,
    /// It lasts until somebody repairs it, and the request was not served.
    Lasting,
    /// A member of a quorum abstains, because it may have forgotten leases. This passes, and the
    /// request was not served.
    Quarantined,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.quorum_report {
            Some(quorum_report) => write!(f, "{}: {quorum_report}", self.store),
            None => write!(f, "{}: {}", self.store, self.reason),
        }
    }
}

impl std::error::Error for Fault {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.quorum_report.as_deref().map(|quorum_report| quorum_report as _)
    }
}
