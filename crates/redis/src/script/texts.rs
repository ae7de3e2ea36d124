//! The texts of the scripts: the parts of each, in order.

use super::call::Script;

macro_rules! script {
    ($($part:literal),+) => {
        Script::new(concat!($(include_str!(concat!("../scripts/", $part, ".lua"))),+))
    };
}

/// Grants a holder all keys of a claim, or none.
pub static GRANT: Script = script!("bounds", "read", "state", "queue", "shares", "turn", "grant");
/// The same at a member of a quorum.
pub static MEMBER_GRANT: Script =
    script!("bounds", "read", "state", "queue", "shares", "turn", "member", "grant");
/// Extends a lease to a TTL from now.
pub static RENEW: Script = script!("bounds", "read", "state", "queue", "shares", "turn", "renew");
/// The same at a member of a quorum.
pub static MEMBER_RENEW: Script =
    script!("bounds", "read", "state", "queue", "shares", "turn", "member", "renew");
/// The same; also takes the lease again if nobody holds or waits for its keys.
pub static REJOIN: Script =
    script!("bounds", "read", "state", "queue", "shares", "turn", "member", "rejoin", "renew");
/// Raises the fences of what a holder holds.
pub static RAISE: Script = script!("bounds", "read", "state", "queue", "shares", "turn", "member", "raise");
/// Makes a successor the holder of what a holder holds.
pub static TRANSFER: Script = script!("bounds", "read", "state", "queue", "shares", "turn", "transfer");
/// The same at a member of a quorum.
pub static MEMBER_TRANSFER: Script =
    script!("bounds", "read", "state", "queue", "shares", "turn", "member", "transfer");
/// Releases what a holder holds.
pub static RELEASE: Script = script!("bounds", "read", "state", "queue", "shares", "turn", "release");
/// The same; also wakes waiters of another library for a key that is then free.
pub static RELEASE_AND_WAKE: Script =
    script!("bounds", "read", "state", "queue", "shares", "turn", "signal", "release");
/// Ends the lease with this fence.
pub static BREAK: Script = script!("bounds", "read", "state", "queue", "shares", "turn", "break");
/// Returns the holders of a key and its waiters.
pub static INSPECT: Script = script!("read", "look", "inspect");
/// The same for many keys.
pub static SURVEY: Script = script!("read", "look", "survey");
/// Marks the keys of a claim as done.
pub static MARK: Script = script!("bounds", "read", "state", "queue", "shares", "mark");
/// Returns whether a key is marked as done.
pub static MARKED: Script = script!("read", "marked");
/// Deletes the mark of a key.
pub static FORGET: Script = script!("read", "forget");
/// Checks that scripts may be run, and returns the time.
pub static OPEN: Script = script!("open");
/// Starts the quarantine of a slot of a cluster, if needed, before its first request.
pub static VOUCH: Script = script!("bounds", "read", "state", "member", "vouch");
/// Returns which keys have a lease or a marker.
pub static LOCKED: Script = script!("locked");
/// Grants free keys, each to a different holder, and deletes leases without waiters.
pub static BATCH: Script = script!("bounds", "batch_grant", "batch_release");
/// The same at a member of a quorum.
pub static MEMBER_BATCH: Script = script!("bounds", "batch_member", "member_batch_grant", "batch_release");
/// Extends leases without waiters to a TTL from now.
pub static BATCH_RENEW: Script = script!("batch_renew");
/// The same at a member of a quorum.
pub static MEMBER_BATCH_RENEW: Script =
    script!("bounds", "batch_member", "member_batch_renew", "batch_renew");
