use leasehold_core::{
    Attempt, BreakNote, Claim, Fence, Holder, Key, Label, Mark, Nonce, Proposal, Signal, Stamp, Successor,
    Ticket, Ttl, Wait, WaitQueue,
};

use super::*;
use crate::slot::{FenceKeys, member_key_in, slot_of};
use crate::wire;

fn attempt(keys: &[&str]) -> Attempt {
    let claim = Claim::exclusive_all(keys.iter().map(|key| Key::new(key).unwrap())).unwrap();
    let ttl = Ttl::new(Duration::from_secs(10)).unwrap();
    Attempt::new(claim, Holder::from_bits(0xab), Label::new("web-3").ok(), ttl)
}

fn shown<W: AsRef<[u8]>>(words: impl IntoIterator<Item = W>) -> Vec<String> {
    words.into_iter().map(|word| word.as_ref().escape_ascii().to_string()).collect()
}

fn called(request: &Request) -> Call {
    call_for(request, Duration::from_secs(2))
}

const DIGITS: &str = "000000000000000000000000000000ab";

#[test]
fn calls_have_these_keys_and_arguments() {
    let grant = |not_after, wait| {
        let request = Request::Grant { attempt: attempt(&["b", "a"]), wait, not_after };
        called(&request)
    };
    let call = grant(Some(Stamp::from_micros(1_700_000_000_000_000)), None);
    let of_a =
        ["a", "leasehold:c{-}", "leasehold:l{a}a", "leasehold:w{a}a", "leasehold:h{a}a", "leasehold:i{a}a"];
    let of_b =
        ["b", "leasehold:c{-}", "leasehold:l{b}b", "leasehold:w{b}b", "leasehold:h{b}b", "leasehold:i{b}b"];
    assert_eq!(shown(call.keys()), [of_a, of_b].concat());
    let what = [DIGITS, "2000", " web-3", "10000", "600000"];
    assert_eq!(shown(call.args()), [&what[..], &["1700000000000000", "x x"]].concat());
    assert_eq!(shown(grant(None, None).args()), [&what[..], &["", "x x"]].concat());

    let ticket = Some((Key::new("b").unwrap(), Ticket::new(1_600_000_000_000_000)));
    let nonce = Some(Nonce::from_bits(0xef));
    let wait = Wait { channel: Some(wire::channel_of(0xcd)), nonce, ticket, queue_limit: Some(50) };
    let channel = "leasehold:000000000000000000000000000000cd";
    let waits = [channel, "2", "1600000000000000", "50", "15000", "000000000000000000000000000000ef"];
    assert_eq!(shown(grant(None, Some(wait)).args()), [&what[..], &["", "x x"], &waits[..]].concat());
    let waits = ["", "", "", "", "15000", ""];
    assert_eq!(
        shown(grant(None, Some(Wait::default())).args()),
        [&what[..], &["", "x x"], &waits[..]].concat()
    );

    let long = attempt(&["a"]).with_ttl(Ttl::MAX);
    let call = called(&Request::Renew(long));
    assert_eq!(shown(call.args()), [DIGITS, "2000", "31536000000", "63072000000", "x"]);
    let call = called(&Request::Release(attempt(&["a"])));
    assert_eq!((shown(call.keys()), shown(call.args())), (shown(of_a), shown([DIGITS, "2000"])));
    let call = called(&Request::Advance(vec![Key::new("a").unwrap()]));
    let nobody = "0".repeat(32);
    assert_eq!((call.keys().len(), shown(call.args())), (6, shown([&*nobody, "2000"])));
    let call = called(&Request::Inspect(Key::new("a").unwrap()));
    assert_eq!((call.keys().len(), call.args().len()), (6, 0));
    let successor = Successor { holder: Holder::from_bits(0xcd), label: Label::new("web 4").ok() };
    let call = called(&Request::Transfer { attempt: attempt(&["a"]), successor });
    let successor = format!("{:0>32}", "cd");
    assert_eq!(
        (shown(call.keys()), shown(call.args())),
        (shown(of_a), shown([DIGITS, "2000", "10000", "600000", &successor, " web 4"]))
    );
    let fence = Fence::new(1_700_000_000_000_000).unwrap();
    let note = BreakNote { by: Label::new("ada").ok(), reason: Label::new("hangs").ok() };
    let call = called(&Request::Break { key: Key::new("a").unwrap(), fence, note });
    let args = ["1700000000000000", "2000", "600000", "leasehold:broken", "ada\nhangs", "86400000"];
    let keys = [&shown(of_a)[..], &["leasehold:b{a}a".to_owned()]].concat();
    assert_eq!((shown(call.keys()), shown(call.args())), (keys, shown(args)));
}

#[test]
fn calls_to_a_member_have_its_key_and_the_proposal_behind_all_others() {
    let max_ttl = Ttl::new(Duration::from_secs(60)).unwrap();
    let proposal = Proposal { fence: Fence::new(1_700_000_000_000_007).unwrap(), max_ttl };
    let ours = attempt(&["a"]);
    let ours = ours.at_member(ours.holder, proposal);
    let not_after = Some(Stamp::from_micros(1_700_000_000_000_000));
    let cases = [
        (
            Request::Grant { attempt: ours.clone(), wait: None, not_after },
            &[DIGITS, "2000", " web-3", "10000", "600000", "1700000000000000", "x"][..],
        ),
        (
            Request::Rejoin { attempt: ours.clone(), not_after },
            &[DIGITS, "2000", "10000", "600000", "x", "1700000000000000", " web-3"],
        ),
        (
            Request::Rejoin { attempt: ours.clone(), not_after: None },
            &[DIGITS, "2000", "10000", "600000", "x", "", " web-3"],
        ),
        (Request::Raise(ours.clone()), &[DIGITS, "2000", "600000"]),
        (Request::Renew(ours.clone()), &[DIGITS, "2000", "10000", "600000", "x"]),
    ];
    for (request, args) in cases {
        let call = call_at_member(&request, Duration::from_secs(2), Some("c0ffee"));
        let sides = ["l", "w", "h", "i"].map(|side| format!("leasehold:{side}{{a}}a"));
        let [key, fences, member] = ["a", "leasehold:f{-}", "leasehold:member"].map(str::to_owned);
        let keys = [&[key, fences][..], &sides, &[member]].concat();
        assert_eq!(shown(call.keys()), keys);
        assert_eq!(shown(call.args()), [args, &["1700000000000007", "c0ffee", "60000"]].concat());
        assert_eq!(shown(called(&request).args()), [args, &["1700000000000007", "", "60000"]].concat());
    }
    assert_eq!(called(&Request::Release(ours)).keys().len(), 6, "a release is everywhere the same");
}

#[test]
fn calls_say_how_each_key_is_wanted() {
    let of = |claim| {
        let attempt = Attempt::new(claim, Holder::from_bits(0xab), None, Ttl::DEFAULT);
        let grant = called(&Request::Grant { attempt: attempt.clone(), wait: None, not_after: None });
        let rejoin = called(&Request::Rejoin { attempt: attempt.clone(), not_after: None });
        let renew = called(&Request::Renew(attempt));
        [(grant, 6), (rejoin, 4), (renew, 4)].map(|(call, at)| shown(call.args().skip(at).take(1)))
    };
    let keys = || ["a", "b"].map(|name| Key::new(name).unwrap());
    assert_eq!(of(Claim::shared(keys()).unwrap()), [["s s"]; 3]);
    assert_eq!(of(Claim::permits(keys(), 2, 4).unwrap()), [["p2/4 p2/4"]; 3]);
}

/// The scripts contain it as a number.
#[test]
fn shares_are_kept_as_long_as_a_queue() {
    let kept = format!("local SHARES_KEPT = {}\n", WaitQueue::KEPT_FOR.as_millis());
    assert!(RELEASE.text().contains(&kept));
}

#[test]
fn marks_have_these_keys_and_arguments() {
    let at = Stamp::from_micros(1_700_000_000_000_000);
    let mark = Mark::new(at, Fence::new(1_700_000_000_000_007).unwrap(), Label::new("web-3").ok());
    let mark = mark.every(Duration::from_secs(3600));
    let keep = Duration::from_secs(7200);
    let call = called(&Request::Mark { attempt: attempt(&["b", "a"]), mark, keep });
    let marks = ["leasehold:m{a}a", "leasehold:m{b}b"].map(String::from);
    let lease = called(&Request::Release(attempt(&["b", "a"])));
    assert_eq!(shown(call.keys()), [&shown(lease.keys())[..], &marks].concat());
    assert_eq!(shown(call.args()), [DIGITS, "1700000000000000 1700000000000007 3600000000 web-3", "7200000"]);
    let call = called(&Request::Marked(Key::new("a").unwrap()));
    assert_eq!((shown(call.keys()), call.args().len()), (vec!["leasehold:m{a}a".to_owned()], 0));
}

#[test]
fn a_release_that_wakes_others_has_where_they_sleep_behind_its_keys() {
    let release = |keys: &[&str], signal| called(&Request::Release(attempt(keys).with_signal(signal)));
    let plain = release(&["lock:b", "a"], None);
    let call = release(&["lock:b", "a"], Some(Signal::PythonRedisLock));
    let sleepers = ["a", "lock-signal:b"].map(String::from);
    assert_eq!(shown(call.keys()), [&shown(plain.keys())[..], &sleepers].concat());
    assert_eq!((shown(call.args()), call.script().sha()), (shown(plain.args()), RELEASE_AND_WAKE.sha()));
    let call = release(&["a"], Some(Signal::PythonRedisLock));
    assert_eq!((call.keys().len(), call.script().sha()), (6, RELEASE.sha()), "nobody can wait for it there");
}

#[test]
fn a_survey_is_of_the_keys_of_several_inspections() {
    let keys = ["b", "a"].map(|name| Key::new(name).unwrap());
    let call = survey_call(&keys, FenceKeys { at_member: false, by_slot: false });
    let inspections = keys.map(|key| shown(called(&Request::Inspect(key)).keys())).concat();
    assert_eq!((shown(call.keys()), call.args().len()), (inspections, 0));
}

#[test]
fn the_member_key_at_a_cluster_node_is_in_the_slot_of_the_claim() {
    let proposal = Proposal { fence: Fence::new(7).unwrap(), max_ttl: attempt(&["a"]).ttl };
    let ours = attempt(&["{order:7}:stock"]);
    let request = Request::Raise(ours.at_member(ours.holder, proposal));
    let [alone, node] =
        [call_at_member, call_at_node].map(|call| call(&request, Duration::from_secs(2), Some("c0ffee")));
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

#[test]
fn commands_have_the_number_of_keys_before_the_keys() {
    let call = called(&Request::Release(attempt(&["a"])));
    let words: Vec<_> = [call.by_sha(), &call.by_text()]
        .iter()
        .map(|command| String::from_utf8(command.get_packed_command()).unwrap())
        .collect();
    assert!(
        words[0].starts_with(&format!("*11\r\n$7\r\nEVALSHA\r\n$40\r\n{}\r\n$1\r\n6\r\n", RELEASE.sha()))
    );
    assert!(words[1].starts_with("*11\r\n$4\r\nEVAL\r\n") && words[1].contains(RELEASE.text()));
}

#[test]
fn every_script_opens_with_its_contract() {
    for script in [
        &GRANT,
        &RENEW,
        &RELEASE,
        &RELEASE_AND_WAKE,
        &BREAK,
        &INSPECT,
        &SURVEY,
        &MARK,
        &MARKED,
        &FORGET,
        &OPEN,
        &BATCH,
        &MEMBER_BATCH,
        &BATCH_RENEW,
        &VOUCH,
        &MEMBER_GRANT,
        &MEMBER_RENEW,
        &REJOIN,
        &TRANSFER,
        &RAISE,
    ] {
        assert!(script.text().starts_with("-- "));
        assert!(script.text().contains("-- KEYS") && script.text().contains("ARGV"));
    }
}
