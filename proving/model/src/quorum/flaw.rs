//! The rules of a quorum, each of which can be left out.

/// A rule that is left out: in what the machine is told, in a member's records, or by an operator.
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

    /// An operator breaks the lease at one member, and takes that for all.
    BreaksAtOneMember,
    /// A break counts although a call of the holder was under way, or a member was not reached.
    BreaksInAHurry,
    /// A break ends the present lease, whatever its fence.
    BreaksWhatIsThere,
    /// A member that had a lease at its last answer may take it again.
    RejoinsWhatItHad,
    /// After a message about a break, the member's record of breaks is not read.
    IgnoresTheRecord,
    /// A holder that reads messages about breaks gives up without asking the members.
    BelievesMessages,

    /// A member raises two readers to the same fence.
    OneFenceForReaders,
    /// A writer ignores readers.
    WriterIgnoresReaders,
    /// A quorum grants permits: one of two to each client.
    GrantsPermits,
    /// A raise of several keys raises the fence of the first.
    RaisesTheFirstKey,
    /// A release of several keys releases the first.
    ReleasesTheFirstKey,
    /// A client holds as soon as two members have granted, however many there are.
    TwoAreEnough,
}
