//! The participants of a world of a quorum, and how often each fault may happen.

use leasehold_core::{Claim, Key};

use crate::faults::faults;

/// The participants, and how often each fault may happen.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Scope {
    /// The number of members.
    pub members: usize,
    /// How many of the last members never answer.
    pub down: usize,
    /// What each client claims.
    pub claims: Vec<Claim>,
    /// How often each client asks, before it leaves.
    pub asks: u8,
    /// True if clients wait in queues; otherwise they only try, again and again.
    pub waits: bool,
    /// True if holders release nothing, like a program that hangs.
    pub hangs: bool,
    pub(super) left: Left,
}

faults! {
    /// Requests or answers that are lost.
    lost,
    /// Requests or answers that take a tick.
    late,
    /// Requests that are served twice.
    twins,
    /// Clients that die.
    crashes,
    /// Clients that change their mind.
    cancels,
    /// Renewals.
    renewals,
    /// Members that lose their state.
    restarts,
    /// Another program's locks at a member.
    strangers,
    /// Leases that an operator breaks through the quorum.
    breaks,
    /// Leases that an operator breaks at a single member.
    single_breaks,
    /// Messages about breaks that somebody forges.
    forgeries,
}

impl Scope {
    /// So many clients, which try to have one key exclusively, at so many members.
    pub fn of(members: usize, clients: usize) -> Self {
        let claims = vec![Claim::exclusive(Key::new("k").expect("it is a key")); clients];
        Self { members, down: 0, claims, asks: 1, waits: false, hangs: false, left: Left::default() }
    }

    /// The same, but the clients claim this.
    pub fn claiming(self, claims: impl IntoIterator<Item = Claim>) -> Self {
        Self { claims: claims.into_iter().collect(), ..self }
    }

    /// The same, but so many members never answer.
    pub fn down(self, down: usize) -> Self {
        Self { down, ..self }
    }

    /// The same clients wait in queues.
    pub fn waiting(self) -> Self {
        Self { waits: true, ..self }
    }

    /// The same clients hang once they hold.
    pub fn hanging(self) -> Self {
        Self { hangs: true, ..self }
    }

    /// The same clients ask so often.
    pub fn asking(self, asks: u8) -> Self {
        Self { asks, ..self }
    }

    const fn left_mut(&mut self) -> &mut Left {
        &mut self.left
    }
}
