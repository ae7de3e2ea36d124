//! Cases of the queue of a key.

use leasehold_core::{Channel, PushEvent, Successor, WaitQueue};

use super::*;

/// The lease before them has ended, and nobody has noticed it yet.
pub(super) fn a_reader_that_asks_at_its_turn_lets_the_next_one_in(subject: &mut Subject) {
    let reader = |who| waits(&by(who, "a").reading());
    is_answered(subject, &grant(&by(1, "a")), 0);
    for who in [2, 3] {
        is_answered(subject, &reader(who), 7);
    }
    run::<()>(subject, cmd("DEL").arg("a"));
    is_answered(subject, &reader(2), 0);
    let holders: u64 = run(subject, cmd("ZCARD").arg(side(Side::Holders, "a")));
    ensure!(holders == 2, holders);
}

/// An attempt that waits for its second key asks again and again.
pub(super) fn a_key_that_is_kept_gets_one_fence(subject: &mut Subject) {
    is_answered(subject, &grant(&by(1, "b")), 0);
    let both = by_for_all(2, &["a", "b"]);
    let mut kept = Vec::new();
    for _ in 0..2 {
        is_answered(subject, &waits(&both), 7);
        kept.push(run::<Vec<u8>>(subject, cmd("GET").arg("a")));
    }
    ensure!(kept[0] == kept[1], kept);
}

/// A hand-over is unclaimed only if others wait behind the new holder.
fn hand_over(subject: &mut Subject, first: &Attempt, behind: [&Attempt; 2]) {
    is_answered(subject, &grant(first), 0);
    for waiter in behind {
        is_answered(subject, &waits(waiter), 7);
    }
    is_answered(subject, &Request::Release(first.clone()), 0);
    ensure!(is_unclaimed(subject));
}

fn is_unclaimed(subject: &mut Subject) -> bool {
    run(subject, cmd("HEXISTS").arg(side(Side::Waiters, "a")).arg("u"))
}

/// It holds one of its keys, and another holder has the other.
pub(super) fn who_rejoins_in_vain_claims_what_it_was_handed(subject: &mut Subject) {
    let now = clock(subject);
    let both = at_member(by_for_all(2, &["a", "b"]), now + 2);
    hand_over(subject, &at_member(by(1, "a"), now + 1), [&both, &at_member(by(3, "a"), now + 3)]);
    set(subject, "b", plain(&by(4, "b"), 7));
    is_answered(subject, &rejoin(&both), 1);
    ensure!(!is_unclaimed(subject));
}

pub(super) fn who_transfers_claims_what_it_was_handed(subject: &mut Subject) {
    let [first, second, third] = [1, 2, 3].map(|who| by(who, "a"));
    hand_over(subject, &first, [&second, &third]);
    is_answered(subject, &transfer(&second), 0);
    ensure!(!is_unclaimed(subject));
}

fn transfer(attempt: &Attempt) -> Request {
    let successor = Successor { holder: Holder::from_bits(9), label: None };
    Request::Transfer { attempt: attempt.clone(), successor, not_after: None }
}

/// The one before it does, on another channel than the new holder.
pub(super) fn who_asks_behind_another_waiter_does_not_watch_the_new_holder(subject: &mut Subject) {
    let waits_on = |who, channel: usize| {
        let wait = Some(Wait { channel: Some(heard().remove(channel)), ..Wait::default() });
        Request::Grant { attempt: by(who, "a"), wait, not_after: None }
    };
    is_answered(subject, &grant(&by(1, "a")), 0);
    for (who, channel) in [(2, 0), (3, 1), (4, 1)] {
        is_answered(subject, &waits_on(who, channel), 7);
    }
    run::<()>(subject, cmd("DEL").arg("a"));
    subject.forget_pushes();
    is_answered(subject, &waits_on(4, 1), 7);
    let told = subject.pushes_until_now().unwrap();
    let is_first = |holder| {
        told.iter().any(|(_, push)| push.holder == holder && matches!(push.event, PushEvent::First { .. }))
    };
    ensure!(is_first(Holder::from_bits(3)) && !is_first(Holder::from_bits(4)), told);
}

/// A queue without waiters, of which somebody deleted a part.
pub(super) fn what_is_left_of_a_queue_is_removed(subject: &mut Subject) {
    let waiters = side(Side::Waiters, "a");
    let both = at_member(by_for_all(1, &["a", "b"]), clock(subject));
    is_answered(subject, &grant(&both), 0);
    set(subject, "b", plain(&by(4, "b"), 7));
    for (request, said) in [(rejoin(&both), 1), (transfer(&by(1, "a")), 0)] {
        run::<()>(subject, cmd("HSET").arg(&waiters).arg("s:leasehold:x").arg(""));
        is_answered(subject, &request, said);
        ensure!(!exists(subject, &waiters), request);
    }
}

/// The lease before it has ended, and nobody has noticed it yet. Its release must hand the key over.
pub(super) fn who_asks_at_its_turn_knows_that_others_wait(subject: &mut Subject) {
    is_answered(subject, &grant(&by(1, "a")), 0);
    for who in [2, 3] {
        is_answered(subject, &waits(&by(who, "a")), 7);
    }
    run::<()>(subject, cmd("DEL").arg("a"));
    is_answered(subject, &waits(&by(2, "a")), 0);
    let value = text(subject, "a");
    ensure!(value.starts_with("lh1+"), value);
}

/// Somebody deleted the waiters' data. A waiter without data is skipped.
pub(super) fn a_queue_without_its_waiters_data_is_removed(subject: &mut Subject) {
    let queue = side(Side::Queue, "a");
    run::<()>(subject, cmd("ZADD").arg(&queue).arg(5).arg(Holder::from_bits(7).digits()));
    is_answered(subject, &grant(&by(1, "a")), 0);
    ensure!(!exists(subject, &queue));
}

/// An earlier request has recorded that the process on this channel left a hand-over unclaimed.
pub(super) fn a_waiter_of_a_process_that_left_a_hand_over_is_skipped(subject: &mut Subject) {
    let channel = heard().pop().unwrap();
    for (name, is_skipped) in [("a", false), ("b", true)] {
        is_answered(subject, &grant(&by(1, name)), 0);
        is_answered(subject, &waits(&by(2, name)), 7);
        if is_skipped {
            let field = [b"s:", channel.as_bytes()].concat();
            run::<()>(subject, cmd("HSET").arg(side(Side::Waiters, name)).arg(field).arg(""));
        }
        is_answered(subject, &Request::Release(by(1, name)), 0);
        ensure!(exists(subject, name) != is_skipped, name);
    }
}

pub(super) fn of_waiters_with_one_ticket_the_one_with_the_lower_id_is_first(subject: &mut Subject) {
    is_answered(subject, &grant(&by(3, "a")), 0);
    for who in [1, 2] {
        is_answered(subject, &waits(&by(who, "a")), 7);
    }
    let mut together = cmd("ZADD");
    together.arg(side(Side::Queue, "a"));
    for who in [1, 2] {
        together.arg(5).arg(Holder::from_bits(who).digits());
    }
    run::<()>(subject, &mut together);
    run::<()>(subject, cmd("DEL").arg("a"));
    is_answered(subject, &waits(&by(2, "a")), 7);
    is_answered(subject, &Request::Renew(by(1, "a")), 0);
}

/// The new holder's process may be dead, and with it all waiters on its channel.
pub(super) fn the_last_waiter_that_is_looked_at_watches_a_new_holder(subject: &mut Subject) {
    is_answered(subject, &grant(&by(1, "a")), 0);
    let watcher = 3 + WaitQueue::LOOKED_AHEAD as u128 - 1;
    for who in 2..watcher {
        is_answered(subject, &waits(&by(who, "a")), 7);
    }
    let wait = Some(Wait { channel: heard().first().cloned(), ..Wait::default() });
    let elsewhere = Request::Grant { attempt: by(watcher, "a"), wait, not_after: None };
    is_answered(subject, &elsewhere, 7);
    subject.forget_pushes();
    is_answered(subject, &Request::Release(by(1, "a")), 0);
    let told = subject.pushes_until_now().unwrap();
    ensure!(told.iter().any(|(_, push)| push.holder == Holder::from_bits(watcher)), told);
}

/// A record of a channel that is skipped would otherwise outlive the queue.
pub(super) fn a_queue_ends_when_its_last_hand_over_is_claimed(subject: &mut Subject) {
    let ours = by(1, "a");
    let waiters = side(Side::Waiters, "a");
    is_answered(subject, &grant(&ours), 0);
    let handed = format!("{} leasehold:x", ours.holder.digits());
    run::<()>(subject, cmd("HSET").arg(&waiters).arg("u").arg(handed).arg("s:leasehold:y").arg(""));
    is_answered(subject, &grant(&ours), 0);
    ensure!(!exists(subject, &waiters));
}

/// One of them was handed the key, and let it end.
pub(super) fn the_waiters_of_a_process_that_cannot_be_notified_are_skipped_together(subject: &mut Subject) {
    let [holder, first, second, last] = [1, 2, 3, 4].map(|who| by(who, "a"));
    is_answered(subject, &grant(&holder), 0);
    for silent in [&first, &second] {
        let wait = Some(Wait { channel: Some(Channel::silent(7)), ..Wait::default() });
        let asks = Request::Grant { attempt: silent.clone(), wait, not_after: None };
        is_answered(subject, &asks, 7);
    }
    is_answered(subject, &waits(&last), 7);
    is_answered(subject, &Request::Release(holder), 0);
    let handed = text(subject, "a");
    ensure!(handed.contains(&first.holder.digits()), handed);
    run::<()>(subject, cmd("DEL").arg("a"));
    raw(subject, &Request::Advance(vec![key("a")]));
    let handed = text(subject, "a");
    ensure!(handed.contains(&last.holder.digits()), handed);
}

/// Regression: a waiter that cannot be notified, and so has no nonce, lost such a label.
pub(super) fn a_label_of_32_digits_is_not_taken_for_a_nonce(subject: &mut Subject) {
    for channel in [None, Some(Channel::silent(7))] {
        let [holder, mut waiter] = [1, 2].map(|who| by(who, "a"));
        waiter.label = Label::new("0123456789abcdef0011223344556677").ok();
        is_answered(subject, &grant(&holder), 0);
        let wait = Some(Wait { channel, ..Wait::default() });
        is_answered(subject, &Request::Grant { attempt: waiter.clone(), wait, not_after: None }, 7);
        let state = inspected(subject, "a");
        ensure!(state.waiters[0].label == waiter.label, state);
        is_answered(subject, &Request::Release(holder), 0);
        let state = inspected(subject, "a");
        let owner = Owner::Holder { holder: waiter.holder, label: waiter.label.clone() };
        ensure!(state.holders[0].owner == owner, state);
        is_answered(subject, &Request::Release(waiter), 0);
    }
}

pub(super) fn a_waiter_with_times_that_no_server_accepts_is_skipped(subject: &mut Subject) {
    for (name, [ttl, keep], is_accepted) in
        [("a", [12, 7], true), ("b", [13, 7], false), ("c", [5, 12], true), ("d", [5, 13], false)]
    {
        let [holder, first, second] = [1, 2, 3].map(|who| by(who, name));
        is_answered(subject, &grant(&holder), 0);
        is_answered(subject, &waits(&first), 7);
        is_answered(subject, &waits(&second), 7);
        let record = format!("{} {} 0 ", "9".repeat(ttl), "9".repeat(keep));
        run::<()>(subject, cmd("HSET").arg(side(Side::Waiters, name)).arg(first.holder.digits()).arg(record));
        is_answered(subject, &Request::Release(holder), 0);
        let handed = text(subject, name);
        let next = if is_accepted { first } else { second };
        ensure!(handed.contains(&next.holder.digits()), (name, handed));
    }
}
