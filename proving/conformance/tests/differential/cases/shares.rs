//! Cases of keys that several holders share.

use leasehold_core::Mode;

use super::*;

fn digits(who: u128) -> String {
    Holder::from_bits(who).digits()
}

/// A stranger writes a share of another holder, which ends a minute from now.
fn leave_holder(subject: &mut Subject, name: &str) {
    let ends = clock(subject) / 1000 + 60_000;
    run::<()>(subject, cmd("ZADD").arg(side(Side::Holders, name)).arg(ends).arg(digits(7)));
}

fn leave_data(subject: &mut Subject, name: &str) {
    let shares = side(Side::Shares, name);
    run::<()>(subject, cmd("HSET").arg(shares).arg(digits(7)).arg("1 7 -").arg("n").arg(1));
}

fn holders(subject: &mut Subject, name: &str) -> Vec<String> {
    run(subject, cmd("ZRANGE").arg(side(Side::Holders, name)).arg(0).arg(-1))
}

pub(super) fn a_writer_that_becomes_a_reader_admits_readers(subject: &mut Subject) {
    for (name, becomes) in
        [("a", rejoin as fn(&Attempt) -> _), ("b", |attempt| Request::Renew(attempt.clone()))]
    {
        let now = clock(subject);
        let [writer, waiter] = [1, 2].map(|who| at_member(by(who, name), now + u64::try_from(who).unwrap()));
        is_answered(subject, &grant(&writer), 0);
        is_answered(subject, &waits(&waiter.reading()), 7);
        is_answered(subject, &becomes(&writer.reading()), 0);
        let holders = holders(subject, name);
        ensure!(holders.len() == 2, holders);
    }
}

pub(super) fn without_their_sum_no_permit_is_granted(subject: &mut Subject) {
    let permit = |who| grant(&of(who, Claim::permits([key("a")], 1, 2).unwrap()));
    let lose =
        |subject: &mut Subject, name| run::<u64>(subject, cmd("HDEL").arg(side(Side::Shares, name)).arg("n"));
    is_answered(subject, &permit(1), 0);
    ensure!(lose(subject, "a") == 1);
    is_answered(subject, &permit(2), 1);
    // Readers need no sum, and do not guess it.
    is_answered(subject, &grant(&reader(1, "b")), 0);
    ensure!(lose(subject, "b") == 1);
    is_answered(subject, &grant(&reader(2, "b")), 0);
    ensure!(lose(subject, "b") == 0);
}

/// A stranger wrote the holder, so its permits are not in the sum.
pub(super) fn a_holder_without_a_record_had_no_permits(subject: &mut Subject) {
    let permit = |who| grant(&of(who, Claim::permits([key("a")], 1, 2).unwrap()));
    is_answered(subject, &permit(1), 0);
    run::<()>(subject, cmd("ZADD").arg(side(Side::Holders, "a")).arg(1).arg(digits(7)));
    is_answered(subject, &permit(2), 0);
    ensure!(holders(subject, "a") == [digits(1), digits(2)]);
    is_answered(subject, &permit(3), 1);
}

pub(super) fn the_marker_of_a_million_permits_is_known(subject: &mut Subject) {
    for who in [1, 2] {
        let permit = of(who, Claim::permits([key("a")], 1, Mode::MOST_PERMITS).unwrap());
        is_answered(subject, &grant(&permit), 0);
    }
}

pub(super) fn a_refusal_leaves_shares_as_they_are(subject: &mut Subject) {
    is_answered(subject, &grant(&reader(1, "a")), 0);
    let sides = [Side::Holders, Side::Shares].map(|of| side(of, "a"));
    for side in &sides {
        run::<()>(subject, cmd("PERSIST").arg(side));
    }
    is_answered(subject, &grant(&by(2, "a")), 1);
    for side in &sides {
        let left: i64 = run(subject, cmd("PTTL").arg(side));
        ensure!(left == -1, left);
    }
}

/// A batch grants a key without removing what is left of its shares.
pub(super) fn shares_that_were_left_beside_a_lease_do_not_return(subject: &mut Subject) {
    let leave = |subject: &mut Subject, name| {
        is_answered(subject, &grant(&by(1, name)), 0);
        leave_holder(subject, name);
        leave_data(subject, name);
    };
    leave(subject, "a");
    is_answered(subject, &Request::Renew(by(1, "a").reading()), 0);
    let left = holders(subject, "a");
    ensure!(left == [digits(1)], left);
    leave(subject, "b");
    is_answered(subject, &waits(&reader(2, "b")), 7);
    is_answered(subject, &Request::Release(by(1, "b")), 0);
    let left = holders(subject, "b");
    ensure!(left == [digits(2)], left);
}

/// Somebody deleted one of the two keys, and the marker.
pub(super) fn half_of_what_shares_consist_of_is_removed(subject: &mut Subject) {
    for (nth, leave) in [leave_holder, leave_data].into_iter().enumerate() {
        let name = format!("for a writer {nth}");
        leave(subject, &name);
        is_answered(subject, &grant(&by(1, &name)), 0);
        let mut exist = cmd("EXISTS");
        exist.arg(side(Side::Holders, &name)).arg(side(Side::Shares, &name));
        ensure!(run::<u64>(subject, &mut exist) == 0, nth);
        let name = format!("for a reader {nth}");
        leave(subject, &name);
        is_answered(subject, &grant(&reader(1, &name)), 0);
        let left = holders(subject, &name);
        ensure!(left == [digits(1)], nth, left);
        let mut data = cmd("HGET");
        let data: Option<String> = run(subject, data.arg(side(Side::Shares, &name)).arg(digits(7)));
        ensure!(data.is_none(), nth, data);
    }
}

pub(super) fn of_shares_that_end_together_the_one_with_the_lower_id_is_named(subject: &mut Subject) {
    for me in [1, 2] {
        let name = format!("asked by {me}");
        for who in [1, 2] {
            is_answered(subject, &grant(&reader(who, &name)), 0);
        }
        let ends = clock(subject) / 1000 + 60_000;
        let mut together = cmd("ZADD");
        together.arg(side(Side::Holders, &name)).arg(ends).arg(digits(1)).arg(ends).arg(digits(2));
        run::<()>(subject, &mut together);
        let refused = raw(subject, &grant(&by(me, &name)));
        let named = &fields(&fields(&refused)[2])[1];
        ensure!(*named == Value::BulkString(digits(1).into_bytes()), me, refused);
    }
}

/// Shares that ended a second ago: more than one request removes.
fn leave_ended(subject: &mut Subject, name: &str) {
    let ended = clock(subject) / 1000 - 1000;
    let (mut ends, mut data) = (cmd("ZADD"), cmd("HSET"));
    ends.arg(side(Side::Holders, name));
    data.arg(side(Side::Shares, name));
    for who in 1000..1150 {
        ends.arg(ended).arg(digits(who));
        data.arg(digits(who)).arg("1 7 -");
    }
    run::<()>(subject, &mut ends);
    run::<()>(subject, &mut data);
}

/// Meanwhile nobody knows whether there is room.
pub(super) fn a_request_removes_a_hundred_ended_shares_and_says_that_more_are_left(subject: &mut Subject) {
    // Beside one that lasts; of readers who are all gone; and with nothing at the key.
    is_answered(subject, &grant(&reader(1, "lasts")), 0);
    run::<()>(subject, cmd("SET").arg("gone").arg("lh1 shared").arg("PX").arg(60_000));
    let reads = |name| grant(&reader(2, name));
    let lets_go = Request::Release(by(2, "gone"));
    for (name, request, says, left) in
        [("lasts", reads("lasts"), 9, 51), ("gone", lets_go, 6, 50), ("nothing", reads("nothing"), 9, 50)]
    {
        leave_ended(subject, name);
        let unknown = raw(subject, &request);
        ensure!(code(&unknown) == Some(says), name, unknown);
        ensure!(fields(&unknown).last() == Some(&Value::Array(vec![Value::Int(1)])), name, unknown);
        let found = holders(subject, name).len();
        ensure!(found == left, name, found);
        is_answered(subject, &reads(name), 0);
    }
}

pub(super) fn the_marker_ends_with_the_last_share_that_is_left(subject: &mut Subject) {
    let long = reader(1, "a");
    let mut short = reader(2, "a");
    short.ttl = ttl(Duration::from_secs(100));
    for attempt in [&long, &short] {
        is_answered(subject, &grant(attempt), 0);
    }
    is_answered(subject, &Request::Release(long), 0);
    let lasts: i64 = run(subject, cmd("PTTL").arg("a"));
    ensure!((1..=100_001).contains(&lasts), lasts);
}
