use super::*;
use crate::{Holder, Owner, QueuePosition, Ticket};

const START: Instant = Instant::from_nanos(1_000_000_000_000);
const SECOND: Duration = Duration::from_secs(1);

fn ttl() -> Ttl {
    Ttl::new(Duration::from_secs(10)).unwrap()
}

fn acquire(within: Option<Duration>) -> Acquire {
    Acquire::new(START, ttl(), Drift::NONE, Patience::new(within, 10 * SECOND), 7)
}

fn granted() -> GrantAnswer {
    GrantAnswer::Granted { fence: Fence::new(5).unwrap() }
}

fn held_for(left: Duration) -> HolderInfo {
    let owner = Owner::Holder { holder: Holder::from_bits(1), label: None };
    HolderInfo::exclusive(Key::new("k").unwrap(), owner, None, Some(left))
}

fn busy(left: Duration) -> GrantAnswer {
    GrantAnswer::Busy { held_by: held_for(left), place: None }
}

fn passing() -> Fault {
    Fault::passing("s", "timed out")
}

/// Asks now, and meets this fault.
fn fail(machine: &mut Acquire, now: Instant, fault: Fault) {
    assert_eq!(machine.next(now), Step::Ask);
    machine.handle_sent(now);
    machine.handle_fault(now, fault);
}

/// Asks now, and gets the answer a moment later.
fn ask(machine: &mut Acquire, now: Instant, answer: GrantAnswer) {
    assert_eq!(machine.next(now), Step::Ask);
    machine.handle_sent(now);
    machine.handle_answer(now + Duration::from_millis(1), answer);
}

/// The number of retries that are allowed.
fn with_retries(within: Option<Duration>, retries: u32) -> Acquire {
    let patience = Patience { retries: Some(retries), ..Patience::new(within, 10 * SECOND) };
    Acquire::new(START, ttl(), Drift::NONE, patience, 7)
}

/// When the machine asks or ends next.
fn rests(machine: &mut Acquire, now: Instant) -> Instant {
    match machine.next(now) {
        Step::WaitUntil(until) => until,
        other => panic!("it does not rest: {other:?}"),
    }
}

/// Asks whenever the machine says so, until it is over; `meets` is what a request meets.
fn until_over(mut machine: Acquire, meets: impl Fn(&mut Acquire, Instant)) -> (Instant, Outcome, u32) {
    let mut now = START;
    loop {
        match machine.next(now) {
            Step::Ask => {
                machine.handle_sent(now);
                meets(&mut machine, now);
            }
            Step::WaitUntil(until) => {
                assert!(until > now);
                now = until;
            }
            Step::Done(outcome) => return (now, outcome, machine.asks()),
        }
    }
}

#[test]
fn a_grant_is_counted_from_before_the_ask_that_gave_it() {
    let mut machine = acquire(None);
    ask(&mut machine, START, busy(SECOND));
    let again = rests(&mut machine, START + Duration::from_millis(1));
    assert_eq!(machine.next(again), Step::Ask);
    machine.handle_sent(again);
    machine.handle_answer(again + 3 * SECOND, granted());
    let lease = Lease::counted_from(again, ttl(), Drift::NONE);
    let done = Ok(Granted { lease, fence: Fence::new(5).unwrap(), handed: None });
    assert_eq!(machine.next(again + 3 * SECOND), Step::Done(done));
}

/// node-redlock 5 returns locks that ended before the reply came.
#[test]
fn a_grant_that_arrives_after_its_lease_ended_is_requested_again() {
    let mut machine = Acquire::new(START, ttl(), Drift::NONE, Patience::new(None, 60 * SECOND), 7);
    machine.next(START);
    machine.handle_sent(START);
    machine.handle_answer(START + 10 * SECOND, granted());
    assert_eq!(machine.next(START + 10 * SECOND), Step::Ask);
}

#[test]
fn a_request_with_a_number_of_retries_ends_after_so_many_refusals() {
    for retries in [0, 1, 3] {
        let machine = with_retries(Some(60 * SECOND), retries);
        let (_, outcome, asks) = until_over(machine, |machine, now| machine.handle_answer(now, busy(SECOND)));
        assert_eq!(outcome, Err(NotGranted::Busy { held_by: Some(held_for(SECOND)), before: None }));
        assert_eq!(asks, retries + 1);
    }
}

/// A store that does not answer refuses nobody.
#[test]
fn faults_are_not_counted_as_retries() {
    let mut machine = with_retries(None, 1);
    let mut now = START;
    for _ in 0..3 {
        fail(&mut machine, now, passing());
        now = rests(&mut machine, now);
    }
    ask(&mut machine, now, busy(SECOND));
    rests(&mut machine, now + Duration::from_millis(1));
}

/// Regression: an endless time plus a moment overflowed.
#[test]
fn a_dead_holder_is_asked_for_right_after_its_end_and_one_that_never_ends_like_any_other() {
    for (left, rest) in [(Duration::from_millis(2), Duration::from_millis(14)), (Duration::MAX, SECOND)] {
        let mut machine = acquire(None);
        ask(&mut machine, START, busy(left));
        assert!(rests(&mut machine, START + Duration::from_millis(1)) <= START + rest, "{left:?}");
    }
}

#[test]
fn the_rests_grow_while_somebody_holds_the_lock_and_begin_anew_after_a_wake_up() {
    let mut machine = acquire(None);
    let mut now = START;
    for _ in 0..20 {
        ask(&mut machine, now, busy(60 * SECOND));
        now = rests(&mut machine, now);
    }
    ask(&mut machine, now, busy(60 * SECOND));
    let rest = rests(&mut machine, now).saturating_since(now);
    assert!(rest >= Duration::from_millis(75), "half of the longest");
    machine.handle_wake(now, Wake::AskAgain);
    ask(&mut machine, now, busy(60 * SECOND));
    assert!(rests(&mut machine, now).saturating_since(now) <= Duration::from_millis(5));
}

#[test]
fn a_silent_store_is_given_the_outage_limit_however_patient_the_caller() {
    let (end, outcome, asks) = until_over(acquire(None), |machine, now| machine.handle_fault(now, passing()));
    assert_eq!((end, outcome), (START + 10 * SECOND, Err(NotGranted::Silent { fault: Some(passing()) })));
    assert!((10..100).contains(&asks), "asked {asks} times");
}

#[test]
fn an_answer_ends_the_silence() {
    let mut machine = acquire(None);
    fail(&mut machine, START, passing());
    ask(&mut machine, START + 9 * SECOND, busy(60 * SECOND));
    assert!(matches!(machine.next(START + 11 * SECOND), Step::Ask));
}

#[test]
fn a_store_that_finds_every_request_too_late_is_not_asked_without_a_pause() {
    let too_late = || GrantAnswer::TooLate { now: crate::Stamp::from_micros(0) };
    let (end, _, asks) = until_over(acquire(None), |machine, now| machine.handle_answer(now, too_late()));
    assert_eq!(end, START + 10 * SECOND);
    assert!(asks < 100, "asked {asks} times");
}

#[test]
fn a_wake_up_ends_the_rest_but_not_an_ask_under_way() {
    let mut machine = acquire(None);
    let soon = START + Duration::from_millis(1);
    ask(&mut machine, START, busy(60 * SECOND));
    machine.handle_wake(soon, Wake::AskAgain);
    assert_eq!(machine.next(soon), Step::Ask);
    machine.handle_sent(soon);
    machine.handle_wake(soon, Wake::AskAgain);
    rests(&mut machine, soon);
}

/// Regression: the end of a connection wakes all who ask, also the one whose request ends it each time.
/// So if others were served in between, it was repeated as fast as connections could be made.
#[test]
fn the_pause_after_a_fault_is_ended_by_a_grant_and_by_no_other_wake_up() {
    let mut machine = acquire(None);
    fail(&mut machine, START, passing());
    let until = rests(&mut machine, START);
    machine.handle_wake(START, Wake::AskAgain);
    assert_eq!(rests(&mut machine, START), until);
    let mut granted = machine.clone();
    granted.handle_wake(START, handed(START));
    assert!(matches!(granted.next(START), Step::Done(Ok(_))));
    // The next answer ends this.
    ask(&mut machine, until, busy(60 * SECOND));
    machine.handle_wake(until, Wake::AskAgain);
    assert_eq!(machine.next(until), Step::Ask);
}

fn queued(before: u64) -> GrantAnswer {
    let place = QueuePosition { ticket: Ticket::new(1), before, stood: false };
    GrantAnswer::Busy { held_by: held_for(SECOND), place: Some(place) }
}

fn handed(since: Instant) -> Wake {
    let lasts = Ttl::new(2 * SECOND).unwrap();
    Wake::Granted { fence: Fence::new(6).unwrap(), since, lasts }
}

/// Regression: a waiter that was stopped during a request, or during an outage, for longer than the
/// outage limit failed as it woke, although the store served all others.
#[test]
fn a_caller_that_was_stopped_asks_again_and_gives_the_store_the_outage_limit() {
    let woken = START + 3600 * SECOND;
    let mut asking = acquire(None);
    asking.handle_sent(START);
    assert_eq!(asking.next(woken), Step::Ask);
    asking.handle_sent(woken);
    assert_eq!(asking.next(woken + SECOND), Step::WaitUntil(woken + 10 * SECOND));
    let mut failing = acquire(None);
    fail(&mut failing, START, passing());
    assert_eq!(failing.next(woken), Step::Ask);
    let mut late = acquire(None);
    late.handle_sent(START);
    late.handle_fault(woken, passing());
    assert!(rests(&mut late, woken) < woken + SECOND);
    assert!(matches!(late.next(woken + 10 * SECOND), Step::Done(Err(NotGranted::Silent { .. }))));
}

/// Regression: the holder that an answer had named before the outage was reported as if it still held.
#[test]
fn a_wait_that_ends_while_the_store_fails_is_an_outage_and_not_contention() {
    let mut machine = acquire(Some(5 * SECOND));
    ask(&mut machine, START, queued(3));
    machine.handle_wake(START + SECOND, Wake::AskAgain);
    fail(&mut machine, START + SECOND, passing());
    let mut healed = machine.clone();
    let silent = Err(NotGranted::Silent { fault: Some(passing()) });
    assert_eq!(machine.next(START + 5 * SECOND), Step::Done(silent));

    rests(&mut healed, START + SECOND);
    ask(&mut healed, START + 4 * SECOND, queued(2));
    let outcome = Err(NotGranted::Busy { held_by: Some(held_for(SECOND)), before: Some(2) });
    assert_eq!(healed.next(START + 5 * SECOND), Step::Done(outcome));
}

#[test]
fn a_hand_over_is_a_grant_of_a_window_counted_from_when_it_began() {
    let mut machine = acquire(None);
    ask(&mut machine, START, queued(0));
    machine.handle_wake(START + 2 * SECOND, handed(START + SECOND));
    let lasts = Ttl::new(2 * SECOND).unwrap();
    let lease = Lease::counted_from(START + SECOND, lasts, Drift::NONE);
    let handed = Some(Handed { since: START + SECOND, lasts });
    let outcome = Ok(Granted { lease, fence: Fence::new(6).unwrap(), handed });
    assert_eq!(machine.next(START + 2 * SECOND), Step::Done(outcome));
    // Whatever length the message names, the lease is no longer than the requested TTL.
    let mut machine = acquire(None);
    ask(&mut machine, START, queued(0));
    let (fence, lasts) = (Fence::new(6).unwrap(), Ttl::new(3600 * SECOND).unwrap());
    machine.handle_wake(START, Wake::Granted { fence, since: START, lasts });
    let Step::Done(Ok(Granted { lease, .. })) = machine.next(START) else { panic!() };
    assert_eq!(lease.end(), START + ttl().duration());
}

#[test]
fn a_late_hand_over_is_checked_at_the_store() {
    let mut machine = acquire(None);
    ask(&mut machine, START, queued(0));
    machine.handle_wake(START + 3 * SECOND, handed(START + SECOND));
    assert_eq!(machine.next(START + 3 * SECOND), Step::Ask);
}

#[test]
fn a_full_queue_differs_from_one_that_is_being_cleared() {
    let mut machine = acquire(None);
    machine.rest_first(START + SECOND);
    assert_eq!(rests(&mut machine, START), START + SECOND);
    ask(&mut machine, START + SECOND, GrantAnswer::Unfinished);
    // A rest comes before the first request only.
    machine.rest_first(START + 9 * SECOND);
    let full = GrantAnswer::QueueFull { held_by: held_for(SECOND), length: 7 };
    ask(&mut machine, START + SECOND + Duration::from_millis(1), full);
    let outcome = Err(NotGranted::QueueFull { held_by: held_for(SECOND), length: 7 });
    assert_eq!(machine.next(START + SECOND), Step::Done(outcome));
}

/// Regression: the first lock of a new quorum failed at the outage limit, after ten seconds, before
/// its members had ended their quarantine.
#[test]
fn a_store_that_abstains_is_waited_for_beyond_the_outage_limit_but_not_by_a_try() {
    let abstains = || Fault::quarantined("s", 61 * SECOND);
    let mut machine = acquire(None);
    let mut now = START;
    while now < START + 61 * SECOND {
        fail(&mut machine, now, abstains());
        let Step::WaitUntil(again) = machine.next(now) else {
            panic!("it gave up after {:?}", now.saturating_since(START))
        };
        assert!(again > now && again <= now + 2 * SECOND);
        now = again;
    }
    ask(&mut machine, now, granted());
    assert!(matches!(machine.next(now + Duration::from_millis(1)), Step::Done(Ok(Granted { .. }))));
    for within in [Duration::ZERO, 3 * SECOND] {
        let mut machine = acquire(Some(within));
        fail(&mut machine, START, abstains());
        let silent = Err(NotGranted::Silent { fault: Some(abstains()) });
        assert_eq!(machine.next(START + within), Step::Done(silent));
    }
}

/// Regression: it counted as one request, although nothing was sent.
#[test]
fn with_an_outage_limit_of_zero_nothing_is_asked() {
    let mut machine = Acquire::new(START, ttl(), Drift::NONE, Patience::new(Some(SECOND), Duration::ZERO), 7);
    assert_eq!(machine.next(START), Step::Done(Err(NotGranted::Silent { fault: None })));
    assert_eq!(machine.asks(), 0);
}
