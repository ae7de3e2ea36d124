//! Faults of stores and of the connections to them.

use std::fmt;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    /// Connections are closed.
    Cut,
    /// Connections are closed with requests that never arrive.
    CutBefore,
    /// Connections are closed when requests are done, before their answers arrive.
    CutAfter,
    /// Connections stay open, and nothing passes; later all of it does.
    HalfOpen,
    /// All that passes is late.
    Delayed,
    /// A request, or an answer, is broken off in the middle.
    Truncated,
    /// CLIENT KILL.
    ClientsKilled,
    /// SCRIPT FLUSH.
    ScriptsFlushed,
    /// CLIENT PAUSE.
    Paused,
    /// SIGSTOP, SIGCONT.
    Stopped,
    /// SIGKILL, and a start with what the append-only file has.
    RestartedWhole,
    /// SIGKILL, and a start with nothing.
    RestartedEmpty,
    /// FLUSHALL.
    Flushed,
    /// The master is killed, and its replica takes its place.
    FailoverKilled,
    /// The master is stopped until its replica has taken its place.
    FailoverHung,
    /// An operator has the replica take the place of its master.
    FailoverOrdered,
    /// A slot goes to another node.
    SlotMoved,
}

impl Kind {
    /// All that there are.
    pub(crate) const ALL: [Self; 17] = [
        Self::Cut,
        Self::CutBefore,
        Self::CutAfter,
        Self::HalfOpen,
        Self::Delayed,
        Self::Truncated,
        Self::ClientsKilled,
        Self::ScriptsFlushed,
        Self::Paused,
        Self::Stopped,
        Self::RestartedWhole,
        Self::RestartedEmpty,
        Self::Flushed,
        Self::FailoverKilled,
        Self::FailoverHung,
        Self::FailoverOrdered,
        Self::SlotMoved,
    ];

    /// Whether the store forgets leases over it.
    pub(crate) const fn loses_state(self) -> bool {
        matches!(
            self,
            Self::RestartedEmpty
                | Self::Flushed
                | Self::FailoverKilled
                | Self::FailoverHung
                | Self::FailoverOrdered
        )
    }

    /// Whether nobody reaches the store, or a part of it, while it lasts.
    pub(crate) const fn is_outage(self) -> bool {
        matches!(
            self,
            Self::Paused
                | Self::Stopped
                | Self::RestartedWhole
                | Self::RestartedEmpty
                | Self::FailoverKilled
                | Self::FailoverHung
                | Self::FailoverOrdered
        )
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Cut => "cut",
            Self::CutBefore => "cut before arrival",
            Self::CutAfter => "cut before the answer",
            Self::HalfOpen => "half-open",
            Self::Delayed => "delayed",
            Self::Truncated => "truncated",
            Self::ClientsKilled => "CLIENT KILL",
            Self::ScriptsFlushed => "SCRIPT FLUSH",
            Self::Paused => "CLIENT PAUSE",
            Self::Stopped => "server stopped",
            Self::RestartedWhole => "server killed, state kept",
            Self::RestartedEmpty => "server killed, state lost",
            Self::Flushed => "FLUSHALL",
            Self::FailoverKilled => "failover, master killed",
            Self::FailoverHung => "failover, master stopped",
            Self::FailoverOrdered => "failover, ordered",
            Self::SlotMoved => "slot moved",
        })
    }
}

/// One fault of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) kind: Kind,
    /// When it was about to begin.
    pub(crate) from: u64,
    /// When it was over.
    pub(crate) until: u64,
}

impl Fault {
    /// A process was killed that had a store in its memory.
    pub(crate) const fn of_memory(at: u64) -> Self {
        Self { kind: Kind::RestartedEmpty, from: at, until: at }
    }
}
