//! The rules, each of which can be left out.
//!
//! The core has no switches for them. A rule is left out around the core: by changing what a store
//! remembers before and after it serves a request (`server`), or what a client passes to its
//! machines and sends (`store`, `quorum`).

/// A rule left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Flaw {
    /// A release deletes whatever stands at the key.
    ReleaseWithoutCompare,
    /// A client asks with one id all its life.
    OneIdPerClient,
    /// A lease is counted from when its answer came.
    CountedFromTheReply,
    /// A fence is the last one and one more, whatever the clock says.
    FenceWithoutFloor,
    /// The clock of the store is behind the last fence when its state is lost.
    ClockBehind,
    /// The clock is read when the grant is sent.
    FloorFromTheClient,
    /// A grant may be on its way for ever.
    NoNotAfter,
    /// Who gives up after a broken connection releases only once.
    OneRelease,
    /// A renewal takes a key that is free.
    RenewalTakes,
    /// A renewal sets the end of the lease, also to an earlier one.
    RenewalShortens,
    /// A grant to who holds already sets the end of its lease, also to an earlier one.
    GrantShortens,
    /// A renewal that is confirmed after the lease's end makes it good again.
    RevivesAfterTheEnd,

    /// A renewal writes the lease down as one that nobody waits for.
    RenewalDropsTheMark,
    /// A hand-over does, and every holder may release by value.
    HandOverDropsTheMark,
    /// Who finds others in line does not mark the holder's lease.
    OnlyTheFirstJoinerMarks,
    /// The value of a stranger is marked as if it were ours.
    MarksAStranger,
    /// Who waited in line releases by value.
    ByValueAfterWaiting,
    /// Who gives up does so by value.
    GivesUpByValue,
    /// A release by who stands in line leaves it there.
    ReleaseStaysInLine,
    /// A push that counts nobody is taken for one that reached nobody.
    TrustsTheCountOfThePush,
    /// Only a release by the owner hands on.
    OnlyTheOwnerHandsOn,
    /// A pushed grant is believed for its ttl from the start.
    CountsTheTtlAtOnce,
    /// A pushed grant is counted from when the push was read.
    CountsFromThePush,
    /// A pushed grant is counted from a time of the server's, as far as the client knows how the clocks differ.
    CountsByTheServersClock,
    /// A push that is read after its end is answered by a release, and the waiter begins anew.
    ReleasesALatePush,
    /// All asks of a waiter have one secret, so that a grant of before counts as one that answers the last.
    OneSecretForAllAsks,
    /// Who asks again does not say its ticket.
    ForgetsTheTicket,
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
    /// Whoever comes to stand first is not told when the holder's lease ends.
    TellsNoNewHead,
    /// Only a hand-over tells who is now first; a waiter that leaves does not.
    OnlyAHandOverTellsTheHead,

    /// Who finds room takes the key although others wait.
    PassesTheLine,
    /// A writer takes no notice of readers.
    WriterBesideReaders,
    /// Nobody adds up the permits.
    PermitsUncounted,
    /// A reader whose marker was deleted is there again with the next one's.
    SharesOutliveTheMarker,
    /// Who waits for one key keeps those behind it.
    KeepsTheKeysBehind,
    /// A break ends whatever lease is there.
    BreaksWhatIsThere,
}
