//! The rules of a quorum, each of which can be left out.

/// A rule that is left out, by changing what the machine is told or what it asks for, or a member's
/// records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Flaw {
    /// A raise counts as answered without being sent: the greatest fence is taken at once.
    RaisesNothing,
    /// The fence ends with the lock.
    FenceInsideTheKey,
    /// A member that restarted empty votes at once.
    NoQuarantine,
    /// A member that restarted abstains for half of the longest TTL.
    ShortQuarantine,
    /// A lease is counted from the last answer.
    CountedFromTheReply,
    /// A member knows the attempt under one id, also after that was given up.
    OneIdForAllRounds,
    /// A renewal that a majority did not confirm is followed by a release, while the lease lasts.
    FailedRenewalReleases,
    /// A grant that was requested but not answered is not released.
    ReleasesOnlyWhereGranted,
    /// A call that ends after its id was given up is not undone.
    LateGrantsAreKept,
}
