//! Faults of stores and of the connections to them.

use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    /// Closes connections.
    Cut,
    /// Closes connections whose requests never arrive.
    CutBefore,
    /// Closes connections after their requests are executed and before the answers arrive.
    CutAfter,
    /// Keeps connections open and passes nothing; everything is delivered later.
    HalfOpen,
    /// Delays all traffic.
    Delayed,
    /// Cuts a request or an answer in the middle.
    Truncated,
    /// CLIENT KILL, or `pg_terminate_backend`.
    ClientsKilled,
    ScriptsFlushed,
    /// CLIENT PAUSE.
    Paused,
    /// SIGSTOP, then SIGCONT.
    Stopped,
    /// SIGKILL, and a restart with the data on the disk.
    RestartedWhole,
    /// SIGKILL, and a restart without data.
    RestartedEmpty,
    /// FLUSHALL.
    Flushed,
    /// Kills the master, so that its replica takes over.
    FailoverKilled,
    /// Stops the master until its replica has taken over.
    FailoverHung,
    /// An operator makes the replica take over from its master.
    FailoverOrdered,
    /// Moves a slot to another node.
    SlotMoved,
}

impl Kind {
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

    /// True if the store forgets leases through it.
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

    /// True if the store, or a part of it, cannot be reached while it lasts.
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
    /// Just before it began.
    pub(crate) from: u64,
    /// When it was over.
    pub(crate) until: u64,
}

impl Fault {
    /// A process with a store in its memory was killed.
    pub(crate) const fn of_memory(at: u64) -> Self {
        Self { kind: Kind::RestartedEmpty, from: at, until: at }
    }
}
