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
    let others =
        |call: &Call| shown(call.keys().take(6).enumerate().filter(|(nth, _)| *nth != 1).map(|(_, key)| key));
    assert!(others(&node) == others(&alone) && node.args().eq(alone.args()));
    assert_eq!(member_key_in(slot_of(b"a")), "leasehold:member{a}");

    let vouch = vouch_call(slot_of(b"a"), "c0ffee", proposal.max_ttl);
    assert_eq!(shown(vouch.keys()), ["leasehold:member{a}"]);
    assert_eq!(shown(vouch.args()), ["0", "c0ffee", "10000"]);
}
