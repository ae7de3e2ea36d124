//! The texts of the scripts: which parts each is made of, in their order.

use super::Script;

macro_rules! script {
    ($($part:literal),+) => {
        Script::new(concat!($(include_str!(concat!("../scripts/", $part, ".lua"))),+))
    };
}

/// Gives a holder all keys of a claim, or none.
pub static GRANT: Script = script!("bounds", "read", "state", "line", "shares", "turn", "grant");
/// The same at a member of a quorum.
pub static MEMBER_GRANT: Script =
    script!("bounds", "read", "state", "line", "shares", "turn", "member", "grant");
/// Lets a lease last a ttl from now.
pub static RENEW: Script = script!("bounds", "read", "state", "line", "shares", "turn", "renew");
/// The same at a member of a quorum.
pub static MEMBER_RENEW: Script =
    script!("bounds", "read", "state", "line", "shares", "turn", "member", "renew");
/// The same, and takes it again where nobody holds or waits.
pub static REJOIN: Script =
    script!("bounds", "read", "state", "line", "shares", "turn", "member", "rejoin", "renew");
/// Lifts the fences of what a holder holds.
pub static RAISE: Script = script!("bounds", "read", "state", "line", "shares", "turn", "member", "raise");
/// Takes back what a holder holds.
pub static RELEASE: Script = script!("bounds", "read", "state", "line", "shares", "turn", "release");
/// The same, and wakes others who wait for a key that is free then.
pub static RELEASE_AND_WAKE: Script =
    script!("bounds", "read", "state", "line", "shares", "turn", "signal", "release");
/// Ends the lease with a fence.
pub static BREAK: Script = script!("bounds", "read", "state", "line", "shares", "turn", "break");
/// Says who holds a key.
pub static INSPECT: Script = script!("read", "look", "inspect");
/// Says the same of many.
pub static SURVEY: Script = script!("read", "look", "survey");
/// Says that what the keys of a claim stand for was done.
pub static MARK: Script = script!("bounds", "read", "state", "line", "shares", "mark");
/// Says whether it was.
pub static MARKED: Script = script!("read", "marked");
/// Deletes what says that it was.
pub static FORGET: Script = script!("read", "forget");
/// Finds out whether scripts may be run, and what time it is.
pub static OPEN: Script = script!("open");
/// Has a slot of a cluster vouched for, before anything is asked of it.
pub static VOUCH: Script = script!("bounds", "read", "state", "member", "vouch");
/// Grants keys that are free, each to a holder of its own.
pub static BATCH_GRANT: Script = script!("bounds", "batch_grant");
/// Deletes leases that nobody waits for.
pub static BATCH_RELEASE: Script = script!("batch_release");
/// Lets leases that nobody waits for last a ttl from now.
pub static BATCH_RENEW: Script = script!("bounds", "batch_renew");
