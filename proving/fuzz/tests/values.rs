//! Values that others left at our keys, published to us, or sent instead of a server.

use std::time::Duration;

use fuzz::{bytes_near, holds, hunt};
use leasehold_core::{
    Answer, Attempt, BreakNote, Claim, Fence, Holder, Key, Label, LeaseBreak, Mark, Nonce, Owner, Proposal,
    PushEvent, Request, Stamp, Successor, Ttl,
};
use leasehold_redis::{
    script::decode,
    wire::{self, PushMessage},
};
use proptest::{collection::vec, prelude::*};
use redis::Value;

const VALUES: [&[u8]; 18] = [
    b"lh1-0123456789abcdef0011223344556677 web-3",
    b"lh1+0123456789abcdef0011223344556677",
    b"lh1?0123456789abcdef0011223344556677 gr\xc3\xb6\xc3\x9fe",
    b"lh2-0123456789abcdef0011223344556677 web-3",
    b"lh1 shared",
    b"lh1 permits 4",
    b"lh1 permits 1048576",
    b"1700000000000000 1700000000000007 3600000000 web-3",
    b"1700000000000000 1700000000000007 -",
    b"1700000000000000 1700000000000007 ada\nhangs\nweb-3",
    b"g 0123456789abcdef0011223344556677 1700000000000000 2000 a b",
    b"g 0123456789abcdef0011223344556677 1700000000000000 2000 00112233445566770123456789abcdef",
    b"f 0123456789abcdef0011223344556677 1500 a b",
    b"a 0123456789abcdef0011223344556677 {a}",
    b"b 0123456789abcdef0011223344556677 leasehold",
    b"d2c1b8f0-7c1e-4a0f-9d4c-1f5b3f0a9a11",
    b"9007199254740991",
    b"",
];

#[test]
fn a_value_is_a_lease_a_marker_or_somebody_elses_and_never_two_of_them() {
    hunt(20_000, bytes_near(&VALUES), |value| {
        let ((owner, fence), flag, family) = (wire::read(&value), wire::flag(&value), wire::family(&value));
        if let Some(family) = family {
            holds(flag.is_none(), || "a marker has a flag".into())?;
            holds(wire::marker_of(family) == value, || "it is written in another way".into())?;
        }
        let told = owner.to_string();
        holds(!told.chars().any(char::is_control), || format!("what it tells is not one line: {told:?}"))?;
        let Owner::Holder { holder, label } = owner else {
            return holds(flag.is_none(), || "what is not ours has a flag".into());
        };
        let Some(flag) = flag else { return Err("a lease without a flag".into()) };
        let again = wire::read(&wire::value_of(flag, holder, fence, label.as_ref()));
        let lease = (Owner::Holder { holder, label: label.clone() }, fence);
        holds(again == lease, || format!("it is read as {again:?} once it is written"))?;
        let label = label.as_ref().map_or("", Label::as_str);
        holds(label.len() <= Label::MAX_LEN && !label.contains('\n'), || format!("no label: {label:?}"))
    });
}

#[test]
fn a_mark_that_is_read_is_written_the_same() {
    let plain = |mark: &Mark| Label::new(mark.label.as_ref().map_or("", Label::as_str)).is_ok();
    hunt(10_000, bytes_near(&VALUES), |value| {
        let Some(mark) = wire::read_mark(&value) else { return Ok(()) };
        holds(plain(&mark), || "no label".into())?;
        let again = wire::read_mark(&wire::mark_of(&mark));
        holds(again.as_ref() == Some(&mark), || format!("{mark:?} is read as {again:?}"))
    });
}

#[test]
fn a_push_that_is_read_says_what_was_published() {
    hunt(20_000, bytes_near(&VALUES), |payload| {
        let Some(PushMessage { holder, event, nonce }) = wire::read_push(&payload) else { return Ok(()) };
        let digits = holder.digits();
        let head = match event {
            PushEvent::Granted { fence, lasts } => format!("g {digits} {fence} {} ", lasts.as_millis()),
            PushEvent::First { left } => format!("f {digits} {} ", left.as_millis()),
            PushEvent::AskAgain => format!("a {digits} "),
            PushEvent::Broken => format!("b {digits} "),
        };
        // Numbers may have leading zeros.
        let proof = nonce.map(Nonce::digit_bytes);
        let again = [head.as_bytes(), proof.as_ref().map_or(&[][..], |digits| digits)].concat();
        let same = wire::read_push(&again) == wire::read_push(&payload);
        let came = proof.is_none_or(|digits| payload.windows(digits.len()).any(|part| part == digits));
        holds(same && came, || format!("it is read as {}", head.escape_debug()))
    });
}

/// Answers that a server or proxy may give: mostly a code and fields of known kinds.
fn answers() -> impl Strategy<Value = Value> {
    let bytes = prop_oneof![
        4 => bytes_near(&VALUES),
        1 => Just(b"1700000000000000".to_vec()),
        1 => Just(b"0123456789abcdef0011223344556677".to_vec()),
        1 => Just(b"18446744073709551615".to_vec()),
    ];
    let number = prop_oneof![
        4 => -2..4_i64,
        1 => any::<i64>(),
        1 => Just(i64::MAX),
        1 => Just(i64::MIN),
    ];
    let leaf = prop_oneof![
        6 => number.prop_map(Value::Int),
        6 => bytes.prop_map(Value::BulkString),
        1 => Just(Value::Nil),
        1 => Just(Value::Okay),
        1 => Just(Value::SimpleString("QUEUED".into())),
        1 => any::<f64>().prop_map(Value::Double),
        1 => any::<bool>().prop_map(Value::Boolean),
    ];
    let field = leaf.prop_recursive(3, 40, 6, |inner| {
        prop_oneof![
            4 => vec(inner.clone(), 0..7).prop_map(Value::Array),
            1 => vec(inner.clone(), 0..3).prop_map(Value::Set),
            1 => vec((inner.clone(), inner), 0..3).prop_map(Value::Map),
        ]
    });
    let whole = (-1..14_i64, vec(field.clone(), 0..9), any::<bool>()).prop_map(|(code, fields, ends)| {
        let end = ends.then(|| Value::Array(Vec::new()));
        Value::Array([Value::Int(code)].into_iter().chain(fields).chain(end).collect())
    });
    prop_oneof![8 => whole, 1 => field]
}

fn requests() -> Vec<Request> {
    let key = |name: &str| Key::new(name).expect("a key");
    let ttl = Ttl::DEFAULT;
    let fence = Fence::new(7).expect("a fence");
    let claim = Claim::exclusive_all([key("a"), key("b")]).expect("two keys");
    let alone = Attempt::new(claim, Holder::from_bits(1), None, ttl);
    let there = alone.at_member(alone.holder, Proposal { fence, max_ttl: ttl });
    let mark = Mark::new(Stamp::from_micros(5), fence, None);
    let mut all = vec![
        Request::Release(alone.clone()),
        Request::Transfer {
            attempt: alone.clone(),
            successor: Successor { holder: Holder::from_bits(2), label: None },
            not_after: None,
        },
        Request::Advance(vec![key("a")]),
        Request::Mark { attempt: alone.clone(), mark, keep: Duration::from_secs(9) },
        Request::Marked(key("a")),
        Request::Inspect(key("a")),
        Request::Break { key: key("a"), lease: LeaseBreak::new(fence, BreakNote::default()) },
    ];
    for attempt in [alone, there] {
        all.extend([
            Request::Grant { attempt: attempt.clone(), wait: None, not_after: None },
            Request::Renew(attempt.clone()),
            Request::Rejoin { attempt: attempt.clone(), not_after: None },
            Request::Raise(attempt),
        ]);
    }
    all
}

#[test]
fn an_answer_is_decoded_for_its_request_or_reported_as_unexpected() {
    let requests = requests();
    let all: Vec<_> = (0..requests.len()).collect();
    hunt(20_000, (proptest::sample::select(all), answers()), |(nth, said)| {
        let request = &requests[nth];
        let reply = match decode(request, said) {
            Ok(reply) => reply,
            Err(why) => return holds(!why.is_empty() && !why.contains('\n'), || format!("no word: {why:?}")),
        };
        let fits = matches!(
            (request, &reply.answer),
            (Request::Grant { .. }, Answer::Grant(_))
                | (Request::Renew(_), Answer::Renew(_))
                | (Request::Rejoin { .. }, Answer::Rejoin(_))
                | (Request::Raise(_), Answer::Raise(_))
                | (Request::Transfer { .. }, Answer::Transfer(_))
                | (Request::Release(_), Answer::Release(_))
                | (Request::Advance(_), Answer::Advance)
                | (Request::Mark { .. }, Answer::Mark(_))
                | (Request::Marked(_), Answer::Marked(_))
                | (Request::Inspect(_), Answer::Inspect(_))
                | (Request::Break { .. }, Answer::Break(_))
                | (
                    Request::Grant { .. } | Request::Renew(_) | Request::Rejoin { .. } | Request::Raise(_),
                    Answer::Quarantined { .. }
                )
        );
        let told = format!("{reply:?}");
        holds(fits, || format!("{request:?} is answered by {told}"))?;
        let known = [b"a".as_slice(), b"b"];
        let ours = reply.unfinished.iter().all(|key| known.contains(&key.as_bytes()));
        holds(ours, || format!("a key that was not asked about: {told}"))
    });
}
