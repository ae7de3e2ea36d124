//! Cases of the functions that few histories reach.

use conformance::sequence::{Step, WINDOW, heard};
use leasehold_core::{Answer, Attempt, Channel, Claim, Fence, GrantAnswer, Holder, Key, Request, Ttl, Wait};
use servers::Postgres;
use std::time::Duration;
use tokio::runtime::Builder;

use super::{Tables, now, with_our_channel};

const LASTS: Duration = Duration::from_secs(60);

#[test]
fn postgres_agrees_in_cases_that_few_histories_reach() {
    let server = Postgres::of(&Postgres::programs().expect("run `cargo xtask servers`"), &[]);
    Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        leasehold::postgres::init(&server.url()).await.unwrap();
        Tables::of(&server).await.agree_on_cases().await.unwrap();
    });
}

impl Tables {
    pub(crate) async fn agree_on_cases(&self) -> Result<(), String> {
        for steps in [
            a_channel_misses_its_turn(),
            a_waiter_wants_another_key_too(),
            a_holder_waits_for_its_key_in_another_mode(),
            the_fences_are_used_up(),
            a_queue_is_longer_than_is_looked_ahead(),
            a_reader_is_first(),
            a_marker_is_gone(),
            a_process_that_cannot_be_notified_is_second(),
        ] {
            self.agree_on(steps, now()).await?;
        }
        self.a_try_behind_a_waiter_has_no_place().await
    }

    /// Requests for two held keys, in one call: the answer to the second has nothing of the first.
    async fn a_try_behind_a_waiter_has_no_place(&self) -> Result<(), String> {
        self.clear().await;
        let request = |who, name: &str, wait| Request::Grant {
            attempt: by(who, Claim::exclusive(key(name))),
            wait,
            not_after: None,
        };
        let wait = Some(on(&heard()[0]));
        for (batch, right) in [
            ([request(1, "a", None), request(2, "b", None)], [None, None]),
            ([request(3, "a", wait), request(4, "b", None)], [Some(true), Some(false)]),
        ] {
            let batch = batch.map(with_our_channel);
            let batch: Vec<_> = batch.iter().collect();
            let served = leasehold_postgres::serve(&self.client, "leasehold", &batch, WINDOW).await?;
            let places: Vec<_> = served
                .iter()
                .map(|served| match &served.answer {
                    Answer::Grant(GrantAnswer::Busy { place, .. }) => Some(place.is_some()),
                    _ => None,
                })
                .collect();
            if places != right {
                return Err(format!("places: {places:?}, not {right:?}"));
            }
        }
        Ok(())
    }
}

/// A process does not take what it is handed, so its other waiter is skipped until it asks again.
fn a_channel_misses_its_turn() -> Vec<Step> {
    let [one, other] = channels();
    vec![
        takes(1),
        waits(2, &one),
        waits(3, &other),
        waits(7, &one),
        waits(4, &other),
        waits(8, &other),
        releases(1),
        Step::Expire(key("k")),
        takes(5),
        renews(3),
        releases(3),
        renews(4),
        waits(6, &one),
        releases(4),
    ]
}

/// It is told to ask again, and not that it has the lock.
fn a_waiter_wants_another_key_too() -> Vec<Step> {
    let both = Claim::exclusive_all([key("k"), key("z")]).unwrap();
    let [one, other] = channels();
    vec![takes(1), grant(by(2, both), Some(on(&one))), waits(3, &other), releases(1)]
}

/// The release takes it out of the queue.
fn a_holder_waits_for_its_key_in_another_mode() -> Vec<Step> {
    let reads = by(1, Claim::shared([key("k")]).unwrap());
    let [one, other] = channels();
    vec![takes(1), waits(2, &one), grant(reads, Some(on(&other))), waits(3, &other), releases(1)]
}

fn the_fences_are_used_up() -> Vec<Step> {
    let [one, _] = channels();
    let spent = Step::SetFence(key("k"), Fence::MAX.get(), LASTS);
    vec![takes(1), waits(2, &one), spent.clone(), takes(3), waits(4, &one), releases(1), spent, takes(5)]
}

/// The first waiter of another process is told of the hand-over only if it is near the front.
fn a_queue_is_longer_than_is_looked_ahead() -> Vec<Step> {
    let [one, other] = channels();
    let front = (2..12).map(|who| waits(who, &one));
    let queue = front.chain([waits(20, &other), waits(21, &other)]);
    let mut steps = vec![takes(1)];
    steps.extend(queue);
    steps.extend([releases(1), renews(2), releases(2), renews(3), releases(3), renews(4), releases(4)]);
    steps
}

/// The next grant removes the shares that are left without their marker.
fn a_marker_is_gone() -> Vec<Step> {
    let reads = by(1, Claim::shared([key("k")]).unwrap());
    vec![grant(reads, None), Step::Delete(key("k")), takes(2)]
}

/// It is not handed the key alone.
fn a_reader_is_first() -> Vec<Step> {
    let reads = by(2, Claim::shared([key("k")]).unwrap());
    let [one, other] = channels();
    vec![takes(1), grant(reads, Some(on(&one))), waits(3, &other), releases(1)]
}

/// The first waiter behind it is told of the hand-over.
fn a_process_that_cannot_be_notified_is_second() -> Vec<Step> {
    let [one, other] = channels();
    vec![takes(1), waits(2, &one), waits(3, &Channel::silent(7)), waits(4, &other), releases(1)]
}

fn channels() -> [Channel; 2] {
    heard().try_into().expect("two channels are heard")
}

fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

fn by(who: u128, claim: Claim) -> Attempt {
    Attempt::new(claim, Holder::from_bits(who), None, Ttl::new(LASTS).unwrap())
}

fn alone(who: u128) -> Attempt {
    by(who, Claim::exclusive(key("k")))
}

fn on(channel: &Channel) -> Wait {
    Wait { channel: Some(channel.clone()), ..Wait::default() }
}

fn grant(attempt: Attempt, wait: Option<Wait>) -> Step {
    Step::Ask(Request::Grant { attempt, wait, not_after: None })
}

fn takes(who: u128) -> Step {
    grant(alone(who), None)
}

fn waits(who: u128, channel: &Channel) -> Step {
    grant(alone(who), Some(on(channel)))
}

fn renews(who: u128) -> Step {
    Step::Ask(Request::Renew(alone(who)))
}

fn releases(who: u128) -> Step {
    Step::Ask(Request::Release(alone(who)))
}
