//! The scripts: requests and answers as bytes, without I/O.
//!
//! One script serves each request, so that nothing can come between its reads and its writes. The
//! texts are constant; key names are passed only in `KEYS`, everything else in `ARGV`; each text
//! begins with its contract.

mod batch;
mod call;
mod encode;
mod texts;

use std::time::Duration;

use leasehold_core::Request;
use redis::{ServerError, ServerErrorKind};

pub(crate) use self::batch::by_segment;
pub use self::batch::{
    Granted, Served, Vouching, batch_call, delete_call, read_batch, read_done, renew_batch,
};
pub use self::call::{Call, Script};
use self::encode::encode;
pub(crate) use self::encode::{
    Asked, advance_call, break_call, grant_call, inspect_call, mark_call, opening_call, raise_call,
    rejoin_call, release_call, renew_call, side_call, transfer_call, vouch_call,
};
pub use self::encode::{locked_call, survey_call};
pub use self::texts::{
    BATCH, BATCH_RENEW, BREAK, FORGET, GRANT, INSPECT, LOCKED, MARK, MARKED, MEMBER_BATCH,
    MEMBER_BATCH_RENEW, MEMBER_GRANT, MEMBER_RENEW, MEMBER_TRANSFER, OPEN, RAISE, REJOIN, RELEASE,
    RELEASE_AND_WAKE, RENEW, SURVEY, TRANSFER, VOUCH,
};
pub use crate::reply::{Reply, decode};

/// Returns true if a server refused a script because it does not know the text.
pub(crate) fn is_unknown_script(error: &ServerError) -> bool {
    error.kind() == Some(ServerErrorKind::NoScript)
}

/// The call for a request. A lock that it hands over may remain unclaimed for `window`.
///
/// Use [`call_at_member`] for a member of a quorum, where each key has its own last fence.
#[must_use]
pub fn call_for(request: &Request, window: Duration) -> Call {
    encode(request, window, Asked { run: None, is_member: false, by_slot: false })
}

/// The same for a member of a quorum. If the attempt has a proposal, the server abstains until it
/// has had this `run` for long enough; `None` if the URL says that the server forgets nothing.
#[must_use]
pub fn call_at_member(request: &Request, window: Duration, run: Option<&str>) -> Call {
    encode(request, window, Asked { run, is_member: true, by_slot: false })
}

#[cfg(test)]
mod tests;
