//! Faults of stores and of the connections to them.

use std::fmt;

use clap::{ValueEnum, builder::PossibleValue};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum)]
pub(crate) enum Kind {
    /// Closes connections.
    Cut,
    /// Closes connections whose requests never arrive.
    #[value(name = "cut before arrival")]
    CutBefore,
    /// Closes connections after their requests are executed and before the answers arrive.
    #[value(name = "cut before the answer")]
    CutAfter,
    /// Keeps connections open and passes nothing; everything is delivered later.
    HalfOpen,
    /// Delays all traffic.
    Delayed,
    /// Cuts a request or an answer in the middle.
    Truncated,
    /// CLIENT KILL, or `pg_terminate_backend`.
    #[value(name = "CLIENT KILL")]
    ClientsKilled,
    #[value(name = "SCRIPT FLUSH")]
    ScriptsFlushed,
    #[value(name = "CLIENT PAUSE")]
    Paused,
    /// SIGSTOP, then SIGCONT.
    #[value(name = "server stopped")]
    Stopped,
    /// SIGKILL, and a restart with the data on the disk.
    #[value(name = "server killed, state kept")]
    RestartedWhole,
    /// SIGKILL, and a restart without data.
    #[value(name = "server killed, state lost")]
    RestartedEmpty,
    #[value(name = "FLUSHALL")]
    Flushed,
    /// Kills the master, so that its replica takes over.
    #[value(name = "failover, master killed")]
    FailoverKilled,
    /// Stops the master until its replica has taken over.
    #[value(name = "failover, master stopped")]
    FailoverHung,
    /// An operator makes the replica take over from its master.
    #[value(name = "failover, ordered")]
    FailoverOrdered,
    /// Moves a slot to another node.
    #[value(name = "slot moved")]
    SlotMoved,
}

impl Kind {
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
        match self {
            Self::Paused | Self::Stopped | Self::RestartedWhole => true,
            Self::Flushed => false,
            _ => self.loses_state(),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.to_possible_value().as_ref().map_or("", PossibleValue::get_name))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) kind: Kind,
    /// Just before it began.
    pub(crate) from: u64,
    /// When it was over.
    pub(crate) until: u64,
}
