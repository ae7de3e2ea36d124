//! The rules, each of which can be left out around the core, which has no switches for this: by
//! changing a store's records (`server`), or what a client passes to its machines and sends
//! (`store`, `quorum`).

/// A rule that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Flaw {
    /// A release deletes the lock at the key, whoever holds it.
    ReleaseWithoutCompare,
    /// A client uses one id for all its requests.
    OneIdPerClient,
    /// A lease is counted from the time of its answer.
    CountedFromTheReply,
    /// A fence is the last one plus one, whatever the clock says.
    FenceWithoutFloor,
    /// The clock of the store is behind the last fence when its state is lost.
    ClockBehind,
    /// The least fence comes from the client's clock when it sends the request.
    FloorFromTheClient,
    /// A grant may be in flight for any time.
    NoNotAfter,
    /// After a broken connection, giving up releases only once.
    OneRelease,
    /// A renewal acquires a free key.
    RenewalTakes,
    /// A renewal sets the end of the lease, even if that shortens it.
    RenewalShortens,
    /// A grant to the present holder sets the end of its lease, even if that shortens it.
    GrantShortens,

    /// A renewal forgets that somebody waits for the lease.
    RenewalDropsTheMark,
    /// A hand-over forgets that somebody waits, and every holder may release by value.
    HandOverDropsTheMark,
    /// The value of another program's lock is marked as if it were ours.
    MarksAStranger,
    /// A client that gives up releases by value.
    GivesUpByValue,
    /// The release of a waiter leaves it in the queue.
    ReleaseStaysQueued,
    /// A push that reached no subscriber by the server's count is taken for undelivered.
    TrustsTheCountOfThePush,
    /// The next waiter is granted the key only by its owner's release.
    OnlyTheOwnerHandsOn,
    /// A pushed grant is believed for a whole ttl at once.
    CountsTheTtlAtOnce,
    /// A pushed grant is counted from the time at which the push was read.
    CountsFromThePush,
    /// A pushed grant is counted from the server's clock, by the known difference of the clocks.
    CountsByTheServersClock,
    /// A waiter that reads a push after its end releases, and starts over.
    ReleasesALatePush,
    /// All requests of a waiter have one nonce: an earlier grant passes for the last's answer.
    OneSecretForAllAsks,
    /// A waiter that asks again does not send its ticket.
    ForgetsTheTicket,
    /// A hand-over is not recorded as unclaimed.
    NoUnclaimedRecord,
    /// A claim leaves the record of the hand-over.
    ClaimLeavesTheRecord,
    /// A request of a sibling of the waiter that did not claim leaves the record.
    SiblingsAreStruckAllTheSame,
    /// A channel that was unresponsive once remains so.
    StrikeStays,
    /// A new connection uses the channel of the previous one.
    ReusesTheChannel,

    /// A free key is granted to any request, even if others wait for it.
    PassesTheQueue,
    /// A writer ignores readers.
    WriterIgnoresReaders,
    /// Permits are not added up.
    PermitsUncounted,
    /// A reader's share outlives the marker's deletion, and counts again with the next marker.
    SharesOutliveTheMarker,
    /// A break ends the present lease, whatever its fence.
    BreaksWhatIsThere,
}
