mod breaking;
mod downgrade;
mod holding;
mod marks;
mod member;
mod records;
mod shares;
mod wait_queue;

use std::time::Duration;

use super::*;
use crate::{
    Claim, Content, GrantAnswer, HoldAnswer, Holder, HolderInfo, Label, LastFence, Lock, Mode, Owner,
    PushEvent, QueuePosition, RaiseAnswer, Ticket, Ttl, Wait,
};

fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

fn attempt(who: u128, keys: &[&str], ttl_s: u64) -> Attempt {
    let claim = Claim::exclusive_all(keys.iter().map(|name| key(name))).unwrap();
    let ttl = Ttl::new(Duration::from_secs(ttl_s)).unwrap();
    Attempt::new(claim, Holder::from_bits(who), Label::new("web-3").ok(), ttl)
}

fn writer(who: u128) -> Attempt {
    attempt(who, &["a"], 10)
}

fn reader(who: u128) -> Attempt {
    shared(who, &["a"], 10)
}

fn shared(who: u128, keys: &[&str], ttl_s: u64) -> Attempt {
    let claim = Claim::shared(keys.iter().map(|name| key(name))).unwrap();
    Attempt { claim, ..attempt(who, keys, ttl_s) }
}

fn at(second: u64) -> ApplyContext<'static> {
    let now = Stamp::from_micros(second * 1_000_000);
    ApplyContext::new(now, Fence::new(now.as_micros()).unwrap())
}

fn ask(records: &mut Records, attempt: &Attempt, second: u64) -> GrantAnswer {
    grant(records, attempt, None, &at(second))
}

fn grant(
    records: &mut Records,
    attempt: &Attempt,
    not_after: Option<Stamp>,
    context: &ApplyContext<'_>,
) -> GrantAnswer {
    super::grant(records, attempt, None, not_after, context).unwrap().answer
}

fn renew(records: &mut Records, attempt: &Attempt, context: &ApplyContext<'_>) -> HoldAnswer {
    super::renew(records, attempt, context).unwrap().answer
}

fn release(records: &mut Records, attempt: &Attempt, context: &ApplyContext<'_>) -> HoldAnswer {
    super::release(records, attempt, context).answer
}

fn granted(number: u64) -> GrantAnswer {
    GrantAnswer::Granted { fence: Fence::new(number).unwrap() }
}

fn wait(
    records: &mut Records,
    attempt: &Attempt,
    context: &ApplyContext<'_>,
) -> (GrantAnswer, Vec<(u128, PushEvent)>) {
    wait_as(records, attempt, Wait { channel: Some(Channel::new("here")), ..Wait::default() }, context)
}

fn wait_as(
    records: &mut Records,
    attempt: &Attempt,
    wait: Wait,
    context: &ApplyContext<'_>,
) -> (GrantAnswer, Vec<(u128, PushEvent)>) {
    let request = Request::Grant { attempt: attempt.clone(), wait: Some(wait), not_after: None };
    let served = apply(records, request, context);
    let Answer::Grant(answer) = served.answer else { panic!("{:?}", served.answer) };
    (answer, told(&served.pushes))
}

/// Waits as part of a process that listens on this channel.
fn listens(records: &mut Records, attempt: &Attempt, channel: Channel, second: u64) {
    wait_as(records, attempt, Wait { channel: Some(channel), ..Wait::default() }, &at(second));
}

fn told(pushes: &[Push]) -> Vec<(u128, PushEvent)> {
    pushes.iter().map(|push| (push.holder.bits(), push.event)).collect()
}

fn pushed(records: &mut Records, request: Request, context: &ApplyContext<'_>) -> Vec<(u128, PushEvent)> {
    told(&apply(records, request, context).pushes)
}

fn place(answer: &GrantAnswer) -> QueuePosition {
    match answer {
        GrantAnswer::Busy { place: Some(place), .. } => *place,
        other => panic!("{other:?}"),
    }
}

fn handed(number: u64) -> PushEvent {
    PushEvent::Granted {
        fence: Fence::new(number).unwrap(),
        lasts: Ttl::new(WaitQueue::CLAIM_WINDOW).unwrap(),
    }
}

const FIRST: PushEvent = PushEvent::First { left: WaitQueue::CLAIM_WINDOW };

/// The records after this attempt was granted its keys at second 100.
fn held_by(attempt: &Attempt) -> Records {
    let mut records = Records::default();
    assert!(matches!(ask(&mut records, attempt, 100), GrantAnswer::Granted { .. }));
    records
}

/// The same, and these have waited behind it since second 101.
fn with_waiters(holder: &Attempt, waiters: impl IntoIterator<Item = Attempt>) -> Records {
    let mut records = held_by(holder);
    for waits in waiters {
        wait(&mut records, &waits, &at(101));
    }
    records
}

/// The holders of a key, with their modes and fences.
fn held(records: &Records, name: &str, second: u64) -> Vec<(u128, Mode, u64)> {
    let in_short = |holding: HolderInfo| {
        let Owner::Holder { holder, .. } = holding.owner else { panic!() };
        (holder.bits(), holding.mode, holding.fence.map_or(0, Fence::get))
    };
    records.holders(&key(name), at(second).now).into_iter().map(in_short).collect()
}

/// One holder, and three waiters behind it.
fn a_line() -> Records {
    let mut records = held_by(&writer(1));
    for who in 2..=4 {
        let (answer, pushes) = wait(&mut records, &writer(who), &at(100 + who as u64));
        assert_eq!((u128::from(place(&answer).before) + 2, pushes), (who, vec![]));
    }
    records
}

#[derive(Debug)]
struct Deaf(&'static str);

impl Subscribers for Deaf {
    fn listens(&self, channel: &Channel) -> bool {
        channel.as_bytes() != self.0.as_bytes()
    }
}
