//! The scripts: requests and answers as bytes, without I/O.
//!
//! One script serves each request, so that nothing can come between its reads and its writes. The
//! texts are constant; key names are passed only in `KEYS`, everything else in `ARGV`; each text
//! begins with its contract.

mod batch;
mod call;
mod encode;

use std::time::Duration;

use leasehold_core::Request;
use redis::{ServerError, ServerErrorKind};

pub(crate) use self::batch::by_segment;
pub use self::batch::{
    Granted, Served, Vouching, batch_call, delete_call, read_batch, read_done, renew_batch,
};
pub use self::call::{
    BATCH, BATCH_RENEW, BREAK, Call, FORGET, GRANT, INSPECT, LOCKED, MARK, MARKED, MEMBER_BATCH,
    MEMBER_BATCH_RENEW, MEMBER_GRANT, MEMBER_RENEW, MEMBER_TRANSFER, OPEN, RAISE, REJOIN, RELEASE,
    RELEASE_AND_WAKE, RENEW, SURVEY, Script, TRANSFER, VOUCH,
};
use self::encode::encode;
pub(crate) use self::encode::{
    Asked, advance_call, break_call, grant_call, inspect_call, mark_call, opening_call, raise_call,
    rejoin_call, release_call, renew_call, side_call, transfer_call, vouch_call,
};
pub use self::encode::{locked_call, survey_call};
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
mod tests {
    use leasehold_core::{Attempt, Claim, Fence, Holder, Key, Label, Proposal, Ttl};

    use super::*;
    use crate::slot::{member_key_in, slot_of};

    fn attempt(keys: &[&str]) -> Attempt {
        let claim = Claim::exclusive_all(keys.iter().map(|key| Key::new(key).unwrap())).unwrap();
        let ttl = Ttl::new(Duration::from_secs(10)).unwrap();
        Attempt::new(claim, Holder::from_bits(0xab), Label::new("web-3").ok(), ttl)
    }

    fn shown<W: AsRef<[u8]>>(words: impl IntoIterator<Item = W>) -> Vec<String> {
        words.into_iter().map(|word| word.as_ref().escape_ascii().to_string()).collect()
    }

    #[test]
    fn the_member_key_at_a_cluster_node_is_in_the_slot_of_the_claim() {
        let proposal = Proposal { fence: Fence::new(7).unwrap(), max_ttl: attempt(&["a"]).ttl };
        let ours = attempt(&["{order:7}:stock"]);
        let request = Request::Raise(ours.at_member(ours.holder, proposal));
        let at = |by_slot| {
            let asked = Asked { run: Some("c0ffee"), is_member: true, by_slot };
            encode(&request, Duration::from_secs(2), asked)
        };
        let [alone, node] = [false, true].map(at);
        let last = |call: &Call| call.keys().last().unwrap().to_vec();
        assert_eq!(last(&alone), b"leasehold:member");
        let slot = slot_of(b"{order:7}:stock");
        assert_eq!(last(&node), member_key_in(slot).into_bytes());
        assert_eq!(slot_of(&last(&node)), slot);
        let fences = |call: &Call| call.keys().nth(1).unwrap().to_vec();
        assert_eq!(fences(&alone), b"leasehold:f{-}{order:");
        assert_eq!(slot_of(&fences(&node)), slot);
        let others = |call: &Call| {
            shown(call.keys().take(6).enumerate().filter(|(nth, _)| *nth != 1).map(|(_, key)| key))
        };
        assert!(others(&node) == others(&alone) && node.args().eq(alone.args()));
        assert_eq!(member_key_in(slot_of(b"a")), "leasehold:member{a}");

        let vouch = vouch_call(slot_of(b"a"), "c0ffee", proposal.max_ttl);
        assert_eq!(shown(vouch.keys()), ["leasehold:member{a}"]);
        assert_eq!(shown(vouch.args()), ["0", "c0ffee", "10000"]);
    }
}
