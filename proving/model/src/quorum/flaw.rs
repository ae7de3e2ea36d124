//! The rules of a quorum, each of which can be left out.

/// A rule left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Flaw {
    /// The highest fence of a majority's answers is taken as it is, and raised nowhere.
    ClaimsTheHighestAtOnce,
    /// A raise lifts the fence, and is counted, also where somebody else owns the key.
    RaiseCountsWhereNotOwned,
    /// A raise is counted whatever fence it answers.
    AnyAnswerCounts,
    /// A grant may give the last fence once more.
    NoPlusOne,
    /// The fence ends with the lock.
    FenceInsideTheKey,
    /// A renewal takes a free member, and leaves its fence as it is.
    JoinsWithoutRaising,
    /// A member that restarted empty votes at once.
    NoQuarantine,
    /// A member is quarantined for the ttl of one attempt, while another has a longer one.
    QuarantineOfMyTtl,
    /// A member that restarted begins to count anew: its clock says nothing, and it asks nobody.
    PureCounter,
    /// A member asks one other what its last fence was.
    LearnsFromOne,
    /// A lease is counted from when the last answer came.
    CountedFromTheLastReply,
    /// A grant may be on its way for ever.
    NoNotAfter,
    /// What was released at a member is asked for there with the same id.
    OneIdForAllRounds,
    /// The answers of a round that was released still count.
    CountsWhatItReleased,
    /// The lease of an attempt that waited at one member is counted from when it asked the others.
    CountedFromTheLaterAsking,
    /// A renewal that a majority did not confirm is followed by a release, while the lease is still believed.
    FailedRenewalReleases,
    /// A release goes only to the members that are known to have granted.
    ReleasesOnlyWhereGranted,
    /// A renewal that is confirmed after the lease's end makes it good again.
    RevivesAfterTheEnd,
    /// A grant that comes again sets the end of the lease, also to an earlier one.
    GrantShortens,
}
