//! Who cannot be told, and what is read late.

use super::super::*;
use crate::{Claim, Ttl};

/// A clock that stands, and timers that ring when it has been set past them.
#[derive(Debug)]
struct Still(Mutex<Instant>);

impl Runtime for Still {
    fn now(&self) -> Instant {
        *self.0.lock().unwrap()
    }

    fn since_epoch(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()> {
        if at <= self.now() { Box::pin(async {}) } else { Box::pin(std::future::pending()) }
    }

    fn spawn(&self, _task: BoxFuture<'static, ()>) {}

    fn random(&self) -> u128 {
        0
    }
}

const START: Instant = Instant::from_nanos(1_000_000_000);

fn attempt(bits: u128) -> Attempt {
    let claim = Claim::exclusive(Key::new("k").unwrap());
    Attempt::new(claim, Holder::from_bits(bits), None, Ttl::DEFAULT)
}

/// The answer to somebody of whom so many stand in line before.
fn busy(before: u64, left: Option<Duration>) -> GrantAnswer {
    let tenant = Tenant::Holder { holder: Holder::from_bits(99), label: None };
    let held_by = Tenancy::exclusive(Key::new("k").unwrap(), tenant, None, left);
    GrantAnswer::Busy { held_by, place: Some(Place { ticket: Ticket::new(before), before, stood: true }) }
}

fn asks_by(waiting: &Waiting, holder: Holder, at: Instant) -> bool {
    let runtime = Still(Mutex::new(at));
    let mut called = waiting.called(holder, &runtime);
    let mut context = std::task::Context::from_waker(Waker::noop());
    matches!(called.as_mut().poll(&mut context), Poll::Ready(Wake::AskAgain))
}

#[test]
fn whoever_cannot_be_told_asks_again_soon_wherever_it_stands() {
    for told in [true, false] {
        let waiting = Waiting::new(1);
        let ours = attempt(1);
        for _ in 0..20 {
            waiting.asks(ours.holder, START);
            if !told {
                waiting.cannot_be_told(ours.holder);
            }
            waiting.answered(&ours, &busy(7, None), START);
            let soon = START + Duration::from_millis(150);
            assert_eq!(asks_by(&waiting, ours.holder, soon), !told);
            assert!(!asks_by(&waiting, ours.holder, START), "but not at once");
        }
        waiting.asks(ours.holder, START);
        waiting.cannot_be_told(ours.holder);
        waiting.answered(&ours, &busy(0, Some(Duration::from_millis(1))), START);
        assert!(asks_by(&waiting, ours.holder, START + Duration::from_millis(12)), "the holder has ended");
    }
}

#[test]
fn of_those_who_cannot_be_told_one_asks_and_when_it_goes_the_next_does_at_once() {
    let waiting = Waiting::new(1);
    let [first, second] = [attempt(1), attempt(2)];
    for (before, one) in [(3, &first), (4, &second)] {
        waiting.asks(one.holder, START);
        waiting.cannot_be_told(one.holder);
        waiting.answered(one, &busy(before, None), START);
    }
    assert!(!asks_by(&waiting, second.holder, START + Duration::from_secs(9)));
    let later = START + Duration::from_secs(9);
    waiting.leave(first.holder, later);
    assert!(asks_by(&waiting, second.holder, later));
}

/// Who hears of the hand-over first, and then of the answer that came before it, waits no more.
#[test]
fn an_answer_that_is_read_after_the_push_behind_it_changes_nothing() {
    let waiting = Waiting::new(1);
    let [first, second] = [attempt(1), attempt(2)];
    let granted = News::Granted { fence: crate::Fence::new(7).unwrap(), lasts: Ttl::DEFAULT };
    waiting.asks(first.holder, START);
    waiting.asks(second.holder, START);
    assert!(waiting.hears(first.holder, &Key::new("k").unwrap(), granted, START, START));
    waiting.answered(&first, &busy(0, None), START);
    waiting.answered(&second, &busy(1, None), START);
    assert_eq!(waiting.len(), 1);
    assert!(asks_by(&waiting, second.holder, START + Line::RE_ASK), "it asks for all now");
    let runtime = Still(Mutex::new(START));
    let mut called = waiting.called(first.holder, &runtime);
    let mut context = std::task::Context::from_waker(Waker::noop());
    assert!(matches!(called.as_mut().poll(&mut context), Poll::Ready(Wake::Granted { .. })));
}
