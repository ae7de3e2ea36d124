//! What the checks remember of a client.

use leasehold_core::{Fence, Holder};

/// Observations of a client that only the checks use.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Ghost {
    /// The fence of its grant, also after its lease.
    pub(super) granted: Option<Fence>,
    /// The greatest fence that others with whom it may share had been granted when it asked.
    pub(super) above: Option<Fence>,
    /// Its ids that were broken, and their members.
    pub(super) broken_at: Vec<(usize, Holder)>,
    /// The greatest fence of its lease that was broken through the quorum.
    pub(super) broken: Option<Fence>,
    pub(super) fault: Option<&'static str>,
}
