use super::*;
use crate::{Holder, HolderInfo, Key, Owner};

const START: Instant = Instant::from_nanos(1_000_000_000_000);
const SECOND: Duration = Duration::from_secs(1);
const CHANCE: u64 = 0x5eed_5eed_5eed_5eed;

fn ttl() -> Ttl {
    Ttl::new(9 * SECOND).unwrap()
}

fn renewing(renewal: Renewal) -> LeaseRenewal {
    let lease = Lease::counted_from(START, ttl(), Drift::NONE);
    LeaseRenewal::new(START, lease, ttl(), Drift::NONE, renewal)
}

fn fault(reason: &str) -> Fault {
    Fault::passing("s", reason)
}

fn key() -> Key {
    Key::new("k").unwrap()
}

fn gone() -> HoldAnswer {
    HoldAnswer::NotHeld { key: key(), held_by: None }
}

/// Renews whenever the machine says so, until the lease is lost; `meets` is what a renewal meets, and
/// returns when. Returns when and why the lease was lost, and each renewal with its time.
fn until_lost(
    mut machine: LeaseRenewal,
    mut now: Instant,
    meets: impl Fn(&mut LeaseRenewal, Instant) -> Instant,
) -> (Instant, Loss, Vec<(Instant, Ttl)>) {
    let mut asked = Vec::new();
    loop {
        match machine.next(now) {
            RenewalStep::WaitUntil(until) => now = until,
            RenewalStep::Renew(ttl) => {
                asked.push((now, ttl));
                machine.handle_sent(now, ttl);
                now = meets(&mut machine, now);
            }
            RenewalStep::Lost(loss) => return (now, loss, asked),
        }
    }
}

/// A renewal that is answered at once.
fn renews(machine: &mut LeaseRenewal, now: Instant, ttl: Ttl, answer: HoldAnswer) {
    machine.handle_sent(now, ttl);
    machine.handle_answer(now, answer);
}

#[test]
fn a_lease_is_renewed_when_a_third_of_it_is_gone() {
    let mut machine = renewing(Renewal::Automatic);
    assert_eq!(machine.next(START), RenewalStep::WaitUntil(START + 3 * SECOND));
    assert_eq!(machine.next(START + 3 * SECOND), RenewalStep::Renew(ttl()));
    machine.handle_sent(START + 3 * SECOND, ttl());
    assert_eq!(machine.next(START + 3 * SECOND), RenewalStep::WaitUntil(START + 9 * SECOND));
    machine.handle_answer(START + 5 * SECOND, HoldAnswer::Done);
    assert_eq!(machine.lease().end(), START + 12 * SECOND);
    assert_eq!(machine.next(START + 5 * SECOND), RenewalStep::WaitUntil(START + 6 * SECOND));
}

/// Regression: the third was counted from the answer, so a lease whose grant was answered late ended
/// without one renewal.
#[test]
fn the_first_renewal_is_due_a_third_of_the_lease_after_the_grant_was_sent() {
    let drift = Drift::BETWEEN_MACHINES;
    let lease = Lease::counted_from(START, ttl(), drift);
    let granted = |at| LeaseRenewal::new(at, lease, ttl(), drift, Renewal::Automatic);
    let mut soon = granted(START + SECOND);
    assert_eq!(soon.next(START + SECOND), RenewalStep::WaitUntil(START + 3 * SECOND));
    let mut late = granted(START + 8 * SECOND);
    assert_eq!(late.next(START + 8 * SECOND), RenewalStep::Renew(ttl()));
}

/// A lease of two seconds from START, where nine seconds were requested.
fn handed(renewal: Renewal) -> LeaseRenewal {
    let lasts = Ttl::new(2 * SECOND).unwrap();
    let lease = Lease::counted_from(START, lasts, Drift::NONE);
    let handed = Some(Handed { since: START, lasts });
    LeaseRenewal::new(START + SECOND / 2, lease, ttl(), Drift::NONE, renewal).handed(handed)
}

/// Also one that is not renewed otherwise, or not for longer: the store may free the locks of dead
/// processes, and knows by that renewal whose this one is.
#[test]
fn an_adopted_lock_is_renewed_at_once() {
    for renewal in [Renewal::Automatic, Renewal::Off, Renewal::AtMost(SECOND)] {
        let mut machine = renewing(renewal);
        let end = machine.lease().end();
        machine.handle_adopted(START);
        let RenewalStep::Renew(ttl) = machine.next(START) else { panic!("{renewal:?}") };
        machine.handle_sent(START, ttl);
        machine.handle_fault(START, fault("lost"), CHANCE);
        let RenewalStep::WaitUntil(again) = machine.next(START) else { panic!("{renewal:?}") };
        let RenewalStep::Renew(ttl) = machine.next(again) else { panic!("{renewal:?}") };
        renews(&mut machine, again, ttl, HoldAnswer::Done);
        assert!(machine.lease().end() >= end);
        let next = machine.next(again);
        assert!(matches!(next, RenewalStep::WaitUntil(until) if until > again + SECOND / 2), "{next:?}");
    }
}

#[test]
fn a_lock_that_was_handed_over_is_renewed_within_a_third_of_its_window_and_then_like_any_other() {
    for renewal in [Renewal::Automatic, Renewal::AtMost(60 * SECOND)] {
        let mut machine = handed(renewal);
        let due = START + Duration::from_secs_f64(2.0) / 3;
        assert_eq!(machine.next(START + SECOND / 2), RenewalStep::WaitUntil(due));
        assert_eq!(machine.next(due), RenewalStep::Renew(ttl()));
        renews(&mut machine, due, ttl(), HoldAnswer::Done);
        assert_eq!(machine.lease().end(), due + 9 * SECOND);
        assert_eq!(machine.next(due), RenewalStep::WaitUntil(due + 3 * SECOND));
    }
}

#[test]
fn without_renewal_a_lock_that_was_handed_over_is_renewed_once() {
    let mut machine = handed(Renewal::Off);
    let RenewalStep::WaitUntil(due) = machine.next(START + SECOND / 2) else { panic!() };
    assert_eq!(machine.next(due), RenewalStep::Renew(ttl()));
    renews(&mut machine, due, ttl(), HoldAnswer::Done);
    assert_eq!(machine.next(due), RenewalStep::WaitUntil(due + 9 * SECOND));
}

#[test]
fn a_lock_that_was_handed_over_is_lost_with_its_window_if_no_renewal_is_answered() {
    let (end, loss, asked) = until_lost(handed(Renewal::Off), START + SECOND / 2, |machine, now| {
        machine.handle_fault(now + SECOND / 5, fault("no answer"), CHANCE);
        now + SECOND / 5
    });
    assert!(matches!(loss, Loss::Expired { fault: Some(_) }), "{loss}");
    assert!(end == START + 2 * SECOND && asked.len() >= 3, "{asked:?}");
}

/// node-redlock 4 gives up everything when one renewal fails; other libraries never notice one.
#[test]
fn failed_renewals_lose_nothing_before_the_lease_ends() {
    let (end, loss, asked) = until_lost(renewing(Renewal::Automatic), START, |machine, now| {
        machine.handle_fault(now, fault("timed out"), CHANCE);
        now
    });
    assert_eq!((end, loss), (START + 9 * SECOND, Loss::Expired { fault: Some(fault("timed out").into()) }));
    assert!((5..40).contains(&asked.len()), "asked {} times", asked.len());
}

#[test]
fn an_answer_that_never_comes_loses_the_lease_at_its_end() {
    let mut machine = renewing(Renewal::Automatic);
    machine.handle_sent(START + 3 * SECOND, ttl());
    assert_eq!(machine.next(START + 8 * SECOND), RenewalStep::WaitUntil(START + 9 * SECOND));
    assert_eq!(machine.next(START + 9 * SECOND), RenewalStep::Lost(Loss::Expired { fault: None }));
    machine.handle_answer(START + 9 * SECOND, HoldAnswer::Done);
    assert!(matches!(machine.next(START + 9 * SECOND), RenewalStep::Lost(_)), "it is too late");
}

#[test]
fn a_lease_that_the_store_reports_as_lost_is_lost_at_once() {
    let mut machine = renewing(Renewal::Automatic);
    let owner = Owner::Holder { holder: Holder::from_bits(1), label: None };
    let held_by = Some(HolderInfo::exclusive(key(), owner, None, None));
    renews(&mut machine, START + 3 * SECOND, ttl(), HoldAnswer::NotHeld { key: key(), held_by });
    assert!(matches!(machine.next(START + 3 * SECOND), RenewalStep::Lost(Loss::TakenByOther { .. })));
}

#[test]
fn a_longest_hold_is_kept_to_the_instant_and_the_last_renewal_asks_for_no_more() {
    let at_most = 20 * SECOND;
    let (end, loss, asked) = until_lost(renewing(Renewal::AtMost(at_most)), START, |machine, now| {
        machine.handle_answer(now, HoldAnswer::Done);
        now
    });
    assert_eq!((end, loss), (START + at_most, Loss::HeldTooLong { at_most }));
    assert!(asked.iter().all(|(at, ttl)| *at + ttl.duration() <= START + at_most));
    assert!(asked.last().is_some_and(|(_, last)| *last < ttl()));
}

#[test]
fn a_renewal_of_ones_own_lengthens_the_lease_and_never_shortens_it() {
    let mut machine = renewing(Renewal::Off);
    let (short, long) = (Ttl::new(SECOND).unwrap(), Ttl::new(20 * SECOND).unwrap());
    machine.handle_own_renewal(START + SECOND, START + SECOND, short, HoldAnswer::Done);
    assert_eq!((machine.lease().end(), machine.ttl()), (START + 9 * SECOND, short));
    machine.handle_own_renewal(START + SECOND, START + SECOND, long, HoldAnswer::Done);
    assert_eq!((machine.lease().end(), machine.ttl()), (START + 21 * SECOND, long));
    machine.handle_own_renewal(START + SECOND, START + SECOND, short, gone());
    assert_eq!(machine.ttl(), long, "a renewal that failed changes no TTL");
}

#[test]
fn a_renewal_of_ones_own_that_is_answered_after_a_later_one_brings_no_renewal_forward() {
    let (earlier, now) = (START + SECOND, START + 3 * SECOND);
    let mut machine = renewing(Renewal::Automatic);
    renews(&mut machine, now, ttl(), HoldAnswer::Done);
    machine.handle_own_renewal(now, earlier, ttl(), HoldAnswer::Done);
    assert_eq!(machine.next(now), RenewalStep::WaitUntil(now + 3 * SECOND));
}

/// Later reasons do not replace the first one.
#[test]
fn a_lease_that_is_kept_no_more_is_lost_for_the_first_reason_given() {
    let closed = Loss::Closed { reason: "bye".into() };
    let mut machine = renewing(Renewal::Automatic);
    assert_eq!(machine.loss(), None);
    machine.handle_close("bye".into());
    machine.handle_close("again".into());
    machine.handle_broken(START);
    machine.handle_own_renewal(START, START, ttl(), gone());
    assert_eq!(machine.loss(), Some(&closed));
    assert_eq!(machine.next(START), RenewalStep::Lost(closed.clone()));
    assert_eq!(closed.to_string(), "the lease is no longer renewed: bye");
}

/// Regression, found by a soak test: a process that had just been handed a lock was stopped, and an
/// operator broke its lease. When the process continued, it asked again under the same id, and was
/// granted the lock; then it received the report of the break, and considered the lease lost.
///
/// Regression: anybody who may publish on the server could end any lease whose holder's digits they
/// had seen, without ending it in the store.
#[test]
fn a_holder_notified_of_a_break_asks_the_store_at_once_and_trusts_the_answer() {
    for (renewal, ttl) in [
        (Renewal::Automatic, ttl()),
        (Renewal::Off, ttl().up_to(Duration::ZERO)),
        (Renewal::AtMost(9 * SECOND), ttl().up_to(Duration::ZERO)),
    ] {
        let heard = START + SECOND / 2;
        let hears = || {
            let mut machine = renewing(renewal);
            machine.handle_broken(heard);
            assert_eq!(machine.loss(), None);
            assert_eq!(machine.next(heard), RenewalStep::Renew(ttl), "{renewal:?}");
            machine.handle_sent(heard, ttl);
            machine
        };
        let mut kept = hears();
        kept.handle_answer(heard, HoldAnswer::Done);
        let RenewalStep::WaitUntil(until) = kept.next(heard) else { panic!("{renewal:?}") };
        assert!(until > heard && kept.lease().end() >= START + 9 * SECOND, "{renewal:?}");
        let mut lost = hears();
        lost.handle_answer(heard, gone());
        let broken = Loss::Broken { key: key(), quorum_report: None };
        assert_eq!(lost.next(heard), RenewalStep::Lost(broken.clone()), "{renewal:?}");
        assert_eq!(broken.to_string(), "k: somebody broke the lease");
        // Nor does a store that never answers say anything about the break.
        let mut silent = hears();
        silent.handle_fault(heard + SECOND, fault("timed out"), CHANCE);
        assert!(matches!(silent.next(heard + 2 * SECOND), RenewalStep::Renew(_)), "{renewal:?}");
        let RenewalStep::Lost(loss) = silent.next(START + 9 * SECOND) else { panic!("{renewal:?}") };
        assert!(!matches!(loss, Loss::Broken { .. }), "{renewal:?}: {loss}");
    }
}

#[test]
fn a_flood_of_words_that_its_lease_was_broken_has_nobody_flood_the_store() {
    let (mut machine, mut asks) = (renewing(Renewal::Automatic), 0);
    for ms in 0..3000 {
        let now = START + Duration::from_millis(ms);
        machine.handle_broken(now);
        if let RenewalStep::Renew(ttl) = machine.next(now) {
            asks += 1;
            renews(&mut machine, now, ttl, HoldAnswer::Done);
        }
    }
    assert!((5..=20).contains(&asks), "{asks} asks in 3 s");
    // Nor flood a store that is down.
    machine.handle_sent(START + 3 * SECOND, ttl());
    machine.handle_broken(START + 3 * SECOND);
    machine.handle_fault(START + 3 * SECOND, fault("timed out"), u64::MAX);
    machine.handle_broken(START + 3 * SECOND);
    assert!(matches!(machine.next(START + 3 * SECOND), RenewalStep::WaitUntil(_)));
}

/// It may have been answered before the lease was broken. It refutes only the notices before it.
#[test]
fn a_renewal_sent_before_the_notice_of_a_break_does_not_refute_it() {
    for has_notice_before in [false, true] {
        let mut machine = renewing(Renewal::Automatic);
        if has_notice_before {
            machine.handle_broken(START);
        }
        machine.handle_sent(START + SECOND / 4, ttl());
        machine.handle_broken(START + SECOND / 2);
        assert_eq!(machine.next(START + SECOND / 2), RenewalStep::WaitUntil(START + 9 * SECOND));
        machine.handle_answer(START + 5 * SECOND / 2, HoldAnswer::Done);
        assert_eq!(machine.next(START + 5 * SECOND / 2), RenewalStep::Renew(ttl()));
        renews(&mut machine, START + 5 * SECOND / 2, ttl(), gone());
        assert_eq!(machine.loss(), Some(&Loss::Broken { key: key(), quorum_report: None }));
    }
}

/// The lease had to be given up while the store was unreachable: reporting that it was held too
/// long would mislead people.
#[test]
fn a_longest_hold_that_ends_with_the_store_away_is_lost_to_the_store() {
    let mut machine = renewing(Renewal::AtMost(20 * SECOND));
    machine.handle_sent(START + 3 * SECOND, ttl());
    machine.handle_fault(START + 4 * SECOND, fault("timed out"), CHANCE);
    let expired = RenewalStep::Lost(Loss::Expired { fault: Some(fault("timed out").into()) });
    assert_eq!(machine.next(START + 9 * SECOND), expired);
    // Nor can it say at the limit whether the lease was broken before.
    let mut doubtful = renewing(Renewal::AtMost(9 * SECOND));
    doubtful.handle_broken(START + 7 * SECOND);
    doubtful.handle_sent(START + 7 * SECOND, ttl());
    doubtful.handle_fault(START + 8 * SECOND, fault("timed out"), CHANCE);
    assert_eq!(doubtful.next(START + 9 * SECOND), expired);
}

#[test]
fn with_a_short_ttl_the_retries_come_as_soon_as_it_wants_them() {
    let ttl = Ttl::new(SECOND / 5).unwrap();
    let lease = Lease::counted_from(START, ttl, Drift::NONE);
    let mut machine = LeaseRenewal::new(START, lease, ttl, Drift::NONE, Renewal::Automatic);
    for _ in 0..8 {
        machine.handle_sent(START, ttl);
        machine.handle_fault(START, fault("timed out"), CHANCE);
        let RenewalStep::WaitUntil(again) = machine.next(START) else { panic!("asked without a pause") };
        assert!(again <= START + ttl.duration() / 8);
    }
}

/// Regression: a process that slept through its lease was told that the longest hold was over.
#[test]
fn a_lease_that_ends_long_before_the_longest_hold_was_not_held_too_long() {
    let at_most = 20 * SECOND;
    for (mut machine, end) in [(renewing(Renewal::AtMost(at_most)), 9), (handed(Renewal::AtMost(at_most)), 2)]
    {
        for now in [START + end * SECOND, START + 100 * SECOND] {
            assert_eq!(machine.next(now), RenewalStep::Lost(Loss::Expired { fault: None }));
        }
    }
    let mut unanswered = renewing(Renewal::AtMost(at_most));
    renews(&mut unanswered, START + 3 * SECOND, ttl(), HoldAnswer::Done);
    unanswered.handle_sent(START + 6 * SECOND, ttl());
    assert_eq!(unanswered.next(START + 12 * SECOND), RenewalStep::Lost(Loss::Expired { fault: None }));
}

/// Nothing more is requested if the remaining time is what the limit allows.
#[test]
fn a_lease_that_lasts_to_the_limit_is_not_renewed_again() {
    let mut machine = renewing(Renewal::AtMost(9 * SECOND));
    assert_eq!(machine.next(START + 8 * SECOND), RenewalStep::WaitUntil(START + 9 * SECOND));
}

/// The lease was lost, and then the answer came to a renewal that the holder had requested: it
/// restores nothing.
#[test]
fn an_answer_to_a_lease_that_is_lost_makes_it_no_longer() {
    let mut machine = renewing(Renewal::Automatic);
    machine.handle_close("bye".into());
    machine.handle_own_renewal(START + SECOND, START + SECOND, ttl(), HoldAnswer::Done);
    assert_eq!(machine.lease().end(), START + 9 * SECOND);
}

#[test]
fn a_reader_that_was_a_writer_says_so_at_once_and_until_the_store_has_confirmed_it() {
    let end = START + 9 * SECOND;
    for (renewal, ttl, left) in [
        (Renewal::Automatic, ttl(), ttl()),
        (Renewal::Off, ttl().up_to(8 * SECOND), ttl().up_to(7 * SECOND)),
        (Renewal::AtMost(9 * SECOND), ttl().up_to(8 * SECOND), ttl().up_to(7 * SECOND)),
    ] {
        let (then, later) = (START + SECOND, START + 2 * SECOND);
        let mut machine = renewing(renewal);
        machine.handle_downgrade(then);
        assert_eq!(machine.next(then), RenewalStep::Renew(ttl));
        machine.handle_sent(then, ttl);
        machine.handle_fault(then, fault("down"), CHANCE);
        let RenewalStep::WaitUntil(again) = machine.next(then) else { panic!("it rests after a fault") };
        assert!(again < later, "{again:?}");
        assert_eq!(machine.next(later), RenewalStep::Renew(left));
        machine.handle_sent(later, left);
        assert_eq!(machine.next(later), RenewalStep::WaitUntil(machine.lease().end()));
        machine.handle_answer(later, HoldAnswer::Done);
        assert!(matches!(machine.next(later), RenewalStep::WaitUntil(until) if until > later));
        // Without renewal it ends when it would have.
        assert!(machine.lease().end() == end || renewal == Renewal::Automatic);
    }
}

/// The answer to it says nothing about the request to read.
#[test]
fn a_renewal_that_was_sent_before_the_writer_became_a_reader_does_not_confirm_it() {
    let then = START + 3 * SECOND;
    let mut machine = renewing(Renewal::Automatic);
    machine.handle_sent(then, ttl());
    // At the same moment, and yet after it.
    machine.handle_downgrade(then);
    assert_eq!(machine.next(then), RenewalStep::WaitUntil(START + 9 * SECOND), "one at a time");
    machine.handle_answer(then, HoldAnswer::Done);
    assert_eq!(machine.next(then), RenewalStep::Renew(ttl()));
    renews(&mut machine, then, ttl(), HoldAnswer::Done);
    assert_eq!(machine.next(then), RenewalStep::WaitUntil(then + 3 * SECOND));
}

/// It asked for the writer that the holder then was.
#[test]
fn a_renewal_of_ones_own_from_before_the_writer_became_a_reader_does_not_confirm_it() {
    let (then, later) = (START + SECOND, START + 2 * SECOND);
    let mut machine = renewing(Renewal::Off);
    machine.handle_downgrade(then);
    machine.handle_sent(then, ttl());
    machine.handle_fault(then, fault("down"), CHANCE);
    machine.handle_own_renewal(then, START, ttl(), HoldAnswer::Done);
    assert!(matches!(machine.next(later), RenewalStep::Renew(_)));
}

/// All writers may become readers at once while the store is away.
#[test]
fn a_reader_that_was_a_writer_asks_a_store_that_fails_no_sooner_for_that() {
    let mut machine = renewing(Renewal::Automatic);
    machine.handle_sent(START + 3 * SECOND, ttl());
    machine.handle_fault(START + 4 * SECOND, fault("down"), u64::MAX);
    let again = machine.next(START + 4 * SECOND);
    machine.handle_downgrade(START + 4 * SECOND);
    assert!(matches!(again, RenewalStep::WaitUntil(_)) && machine.next(START + 4 * SECOND) == again);
}

#[test]
fn a_downgrade_of_a_lease_that_the_store_has_no_more_finds_the_loss() {
    let mut machine = renewing(Renewal::Off);
    machine.handle_downgrade(START);
    renews(&mut machine, START, ttl(), gone());
    assert_eq!(machine.next(START), RenewalStep::Lost(Loss::not_held(key(), None)));
}
