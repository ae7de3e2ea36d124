//! The rules that a grant rests on, each of them to be left out.

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
    /// The clock of the store stands behind the last fence when its state is lost.
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
}
