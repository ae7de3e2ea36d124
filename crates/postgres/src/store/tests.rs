use std::task::{Context, Poll, Waker};

use leasehold_core::{Fence, Holder, Instant, PushEvent, Stamp};

use super::*;
use crate::channel;
use crate::push::PushMessage;

#[derive(Debug)]
struct StoppedClock;

impl Runtime for StoppedClock {
    fn now(&self) -> Instant {
        Instant::from_nanos(5_000_000_000)
    }

    fn since_epoch(&self) -> Duration {
        Duration::from_secs(1_700_000_000)
    }

    fn sleep_until(&self, _: Instant) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }

    fn spawn(&self, _: BoxFuture<'static, ()>) {}

    fn random(&self) -> u128 {
        0
    }
}

/// A message may have been on its way for long.
#[test]
fn a_lease_in_a_message_counts_from_a_reading_before_it_and_for_a_claim_window() {
    let store = PostgresStore::from_url("postgres://host/db", Arc::new(StoppedClock)).unwrap();
    let inner = &store.inner;
    let (number, secret) = (7, Some(Nonce::from_bits(1)));
    let hears = |who, nonce: Option<Nonce>| {
        let holder = Holder::from_bits(who);
        let proof = nonce.map(|nonce| Proof { channel: channel::of_number(number), nonce });
        inner.waiting.asks(holder, proof, Instant::from_nanos(3_000_000_000));
        let event = PushEvent::Granted { fence: Fence::new(1).unwrap(), lasts: Ttl::DEFAULT };
        let at = Stamp::from_micros(2_000);
        inner.receive(Some(number), &PushMessage { holder, event, nonce, at });
        inner.waiting.called(holder, &StoppedClock).as_mut().poll(&mut Context::from_waker(Waker::noop()))
    };
    assert_eq!(hears(1, secret), Poll::Ready(Wake::AskAgain), "nobody knows when it was granted");
    let asked = Instant::from_nanos(4_000_000_000);
    inner.readings.note(inner.readings.session(), asked, Stamp::from_micros(1_000));
    let told = hears(2, secret);
    let Poll::Ready(Wake::Granted { since, lasts, .. }) = told else { panic!("{told:?}") };
    assert_eq!((since, lasts.duration()), (asked, inner.scope.window));
    assert_eq!(hears(3, None), Poll::Ready(Wake::AskAgain), "nothing proves it");
}
