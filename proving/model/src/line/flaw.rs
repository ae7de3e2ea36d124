//! The rules that the line rests on, each of them to be left out.

/// A rule left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Flaw {
    /// A renewal writes a value without the mark.
    RenewalDropsTheMark,
    /// A hand-over writes a value without the mark, and every holder may release natively.
    HandOverDropsTheMark,
    /// Who finds others in line does not mark the holder's value. Where the fence steps aside for the line this alone does no
    /// harm: whoever has the key by native commands while there is a line asks the script, and that hands over.
    OnlyTheFirstJoinerMarks,
    /// The same, and the fence does not step aside.
    OnlyTheFirstJoinerMarksAndPairsSlip,
    /// The value of a stranger is marked as if it were ours.
    MarksAStranger,
    /// A release by who stands in line leaves it there.
    ReleaseStaysInLine,
    /// A push that counts nobody is taken for one that reached nobody.
    TrustsTheCountOfThePush,
    /// Only a release by the owner hands over.
    AdvancesOnlyWhenTheOwnerLeaves,
    /// A pushed grant is believed for its ttl from the start.
    CountsTheTtlAtOnce,
    /// A pushed grant is counted from when the push was read.
    CountsFromThePush,
    /// A pushed grant ends at a time of the server, and the client knows how far apart the clocks stood when it connected.
    CountsByTheServersClock,
    /// A push that is read after its end is answered by a release, and the waiter begins anew.
    ReleasesALatePush,
    /// Who asks again does not say its ticket.
    ForgetsTheTicket,
    /// Whoever owns the key and asks again steps back behind those who wait.
    StepsBackWithoutTheFlag,
    /// The fence stays where the native pair finds it although there is a line.
    PairSlipsPastTheLine,
    /// The native pair counts first and takes the key afterwards.
    PairCountsFirst,
    /// The counter that a native pair began is left where it is.
    CounterStays,
    /// Who waited in line releases by a native compare-and-delete.
    NativeReleaseAfterJoining,
    /// Who gives up after a refused pair does so by a native compare-and-delete.
    NativeGivingUp,
    /// A hand-over notes nowhere that it is to be claimed.
    NoUnclaimedRecord,
    /// A claim leaves the record of the hand-over.
    ClaimLeavesTheRecord,
    /// Who comes too late to claim is struck all the same.
    LateClaimLeavesTheRecord,
    /// An ask by a sibling of who did not claim leaves the record.
    SiblingsAreStruckAllTheSame,
    /// Once struck, a channel stays so.
    StrikeStays,
    /// A connection that is made anew listens to the channel of the one before.
    ReusesTheChannel,
    /// An ask may be on its way for ever.
    JoinWithoutNotAfter,
    /// Who gives up after a broken connection releases only once.
    GivesUpOnce,
    /// Whoever comes to stand first is not told when the holder's lease ends.
    TellsNoNewHead,
    /// Only a hand-over tells who is now first; a waiter that leaves does not.
    OnlyAHandOverTellsTheHead,
    /// When one of a process is dropped from the line the others are not asked for again.
    SiblingsStayAway,
}
