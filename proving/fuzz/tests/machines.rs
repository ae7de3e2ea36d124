//! The client's state machines, driven by events in any order, at any time, with any numbers: unasked
//! answers, clocks that stand still or jump to the end of time, holders that last forever.

use std::{
    mem,
    task::{Context, Poll, Waker},
    time::Duration,
};

use fuzz::{Asleep, Verdict, holds, hunt};
use leasehold_core::{
    Acquire, Attempt, Ballot, Claim, Drift, Fault, Fence, GrantAnswer, Granted, HoldAnswer, Holder,
    HolderInfo, Instant, Key, Lease, LeaseRenewal, Outcome, Owner, Patience, PushEvent, QueuePosition,
    Renewal, RenewalStep, Round, RoundAction, Stamp, Step, Ticket, Ttl, Vote, WaitQueue, WaiterRegistry,
    Wake, majority_of,
};
use proptest::{collection::vec, prelude::*};

/// A jump of the clock in nanoseconds: mostly small, sometimes to the end of time.
fn leap() -> impl Strategy<Value = u64> {
    prop_oneof![
        2 => Just(0),
        4 => 0..5_000_000_u64,
        6 => 0..20_000_000_000_u64,
        1 => 0..u64::MAX,
    ]
}

/// At the latest just before the end of time, which means "without limit".
fn after(now: Instant, leap: u64) -> Instant {
    Instant::from_nanos(now.as_nanos().saturating_add(leap).min(u64::MAX - 2))
}

/// A duration from outside.
fn foreign_time() -> impl Strategy<Value = Duration> {
    prop_oneof![
        4 => (0..20_000_u64).prop_map(Duration::from_millis),
        1 => any::<u64>().prop_map(Duration::from_millis),
        1 => Just(Duration::MAX),
    ]
}

fn ttl() -> impl Strategy<Value = Ttl> {
    prop_oneof![
        4 => 10..30_000_u64,
        1 => Just(Ttl::MAX.as_millis()),
    ]
    .prop_map(|ms| Ttl::new(Duration::from_millis(ms)).expect("within bounds"))
}

fn fence() -> impl Strategy<Value = Fence> {
    prop_oneof![3 => 0..20_u64, 1 => Just(Fence::MAX.get())].prop_map(|it| Fence::new(it).expect("a fence"))
}

fn key() -> Key {
    Key::new("k").expect("a key")
}

fn holding() -> impl Strategy<Value = HolderInfo> {
    (prop::option::of(foreign_time()), any::<bool>()).prop_map(|(remaining, foreign)| {
        let ours = Owner::Holder { holder: Holder::from_bits(9), label: None };
        let owner = if foreign { Owner::Foreign { value: b"x"[..].into() } } else { ours };
        HolderInfo::exclusive(key(), owner, None, remaining)
    })
}

fn place() -> impl Strategy<Value = QueuePosition> {
    (
        prop_oneof![3 => 0..4_u64, 1 => any::<u64>()],
        prop_oneof![3 => 0..4_u64, 1 => any::<u64>()],
        any::<bool>(),
    )
        .prop_map(|(ticket, before, stood)| QueuePosition { ticket: Ticket::new(ticket), before, stood })
}

fn grant_answer() -> impl Strategy<Value = GrantAnswer> {
    prop_oneof![
        3 => fence().prop_map(|fence| GrantAnswer::Granted { fence }),
        4 => (holding(), prop::option::of(place())).prop_map(|(held_by, place)| GrantAnswer::Busy { held_by, place }),
        1 => (holding(), any::<u64>()).prop_map(|(held_by, length)| GrantAnswer::QueueFull { held_by, length }),
        2 => Just(GrantAnswer::Unfinished),
        2 => any::<u64>().prop_map(|now| GrantAnswer::TooLate { now: Stamp::from_micros(now) }),
        1 => Just(GrantAnswer::NotALock { key: key() }),
        1 => Just(GrantAnswer::FencesSpent { key: key() }),
    ]
}

fn hold_answer() -> impl Strategy<Value = HoldAnswer> {
    prop_oneof![
        5 => Just(HoldAnswer::Done),
        1 => prop::option::of(holding()).prop_map(|held_by| HoldAnswer::NotHeld { key: key(), held_by }),
    ]
}

fn fault(lasting: bool) -> Fault {
    if lasting { Fault::lasting("s", "no") } else { Fault::passing("s", "timed out") }
}

#[derive(Clone, Debug)]
enum AtAcquire {
    Sent,
    Answer(GrantAnswer),
    Fault(bool),
    AskAgain,
    /// A push with a lease that began this long ago.
    Handed(Fence, u64, Ttl),
    Next,
}

fn at_acquire() -> impl Strategy<Value = AtAcquire> {
    prop_oneof![
        4 => Just(AtAcquire::Next),
        4 => Just(AtAcquire::Sent),
        4 => grant_answer().prop_map(AtAcquire::Answer),
        1 => prop::bool::weighted(0.1).prop_map(AtAcquire::Fault),
        1 => Just(AtAcquire::AskAgain),
        1 => (fence(), leap(), ttl()).prop_map(|(fence, ago, lasts)| AtAcquire::Handed(fence, ago, lasts)),
    ]
}

/// A lease lasts a TTL from its request or reported start; a finish is final; no wait is for the past.
#[test]
fn an_acquisition_ignores_unrequested_answers() {
    let events = vec((at_acquire(), leap()), 1..60);
    let patience = (prop::option::of(foreign_time()), foreign_time(), any::<u64>());
    hunt(4_000, (ttl(), patience, events), |(ttl, (within, outage_limit, seed), events)| {
        let mut now = Instant::from_nanos(0);
        let drift = Drift::BETWEEN_MACHINES;
        let mut machine = Acquire::new(now, ttl, drift, Patience::new(within, outage_limit), seed);
        let limit = within.filter(|within| !within.is_zero()).map(|within| now + within);
        let (mut sent, mut handed, mut over): (_, _, Option<Outcome>) = (Vec::new(), Vec::new(), None);
        for (event, later) in events {
            now = after(now, later);
            match event {
                AtAcquire::Sent => {
                    machine.handle_sent(now);
                    sent.push(now);
                    // The driver asked although the acquisition was finished, so it starts over.
                    over = None;
                }
                AtAcquire::Answer(answer) => machine.handle_answer(now, answer),
                AtAcquire::Fault(lasting) => {
                    machine.handle_fault(now, fault(lasting));
                    over = None;
                }
                AtAcquire::AskAgain => machine.handle_wake(now, Wake::AskAgain),
                AtAcquire::Handed(fence, ago, lasts) => {
                    let since = Instant::from_nanos(now.as_nanos().saturating_sub(ago));
                    handed.push((since, lasts));
                    machine.handle_wake(now, Wake::Granted { fence, since, lasts });
                }
                AtAcquire::Next => {}
            }
            match machine.next(now) {
                Step::WaitUntil(until) => {
                    let in_time = until > now && limit.is_none_or(|limit| until <= limit);
                    holds(in_time, || format!("it waits for {until:?} at {now:?}, and may until {limit:?}"))?;
                }
                Step::Ask => holds(over.is_none(), || "it asks although it is over".into())?,
                Step::Done(outcome) => {
                    if let Some(over) = &over {
                        holds(*over == outcome, || format!("{over:?} became {outcome:?}"))?;
                    } else if let Ok(Granted { lease, handed: by_push, .. }) = &outcome {
                        let asked =
                            sent.iter().map(|sent| Lease::counted_from(*sent, ttl, drift).end()).max();
                        let told = handed
                            .iter()
                            .map(|(since, lasts)| Lease::counted_from(*since, *lasts, drift).end());
                        let most = if by_push.is_some() { told.max() } else { asked };
                        holds(lease.is_held(now) && most.is_some_and(|most| lease.end() <= most), || {
                            format!("believed too long: {lease:?}")
                        })?;
                    }
                    over = Some(outcome);
                }
            }
        }
        Ok(())
    });
}

#[derive(Clone, Debug)]
enum AtRenewal {
    Sent(Ttl),
    Answer(HoldAnswer),
    /// The holder's own renewal, sent this long ago.
    Own(u64, Ttl, HoldAnswer),
    Fault,
    Broken,
    Close,
}

fn at_renewal() -> impl Strategy<Value = AtRenewal> {
    prop_oneof![
        6 => ttl().prop_map(AtRenewal::Sent),
        6 => hold_answer().prop_map(AtRenewal::Answer),
        3 => (leap(), ttl(), hold_answer()).prop_map(|(ago, ttl, answer)| AtRenewal::Own(ago, ttl, answer)),
        2 => Just(AtRenewal::Fault),
        1 => prop::bool::ANY.prop_map(|broken| if broken { AtRenewal::Broken } else { AtRenewal::Close }),
    ]
}

fn renewal() -> impl Strategy<Value = Renewal> {
    prop_oneof![Just(Renewal::Automatic), Just(Renewal::Off), foreign_time().prop_map(Renewal::AtMost),]
}

/// A lease ends at most a TTL after the latest answered sending; a lost one never comes back.
#[test]
fn a_lease_is_kept_by_answers_alone() {
    let events = vec((at_renewal(), leap()), 1..60);
    hunt(4_000, (ttl(), renewal(), any::<u64>(), events), |(ttl, renewal, chance, events)| {
        let mut now = Instant::from_nanos(1_000_000_000);
        let drift = Drift::BETWEEN_MACHINES;
        let first = Lease::counted_from(now, ttl, drift);
        let mut machine = LeaseRenewal::new(now, first, ttl, drift, renewal);
        let (begun, mut most) = (now, first.end());
        let (mut asking, mut lost) = (None, false);
        for (event, later) in events {
            now = after(now, later);
            match event {
                AtRenewal::Sent(ttl) => {
                    machine.handle_sent(now, ttl);
                    asking = Some((now, ttl));
                }
                AtRenewal::Answer(answer) => {
                    if let (Some((sent, ttl)), HoldAnswer::Done) = (asking.take(), &answer) {
                        most = most.max(Lease::counted_from(sent, ttl, drift).end());
                    }
                    machine.handle_answer(now, answer);
                }
                AtRenewal::Own(ago, ttl, answer) => {
                    let sent = Instant::from_nanos(now.as_nanos().saturating_sub(ago));
                    if answer == HoldAnswer::Done {
                        most = most.max(Lease::counted_from(sent, ttl, drift).end());
                    }
                    machine.handle_own_renewal(now, sent, ttl, answer);
                }
                AtRenewal::Fault => {
                    machine.handle_fault(now, Fault::passing("s", "timed out"), chance);
                    asking = None;
                }
                AtRenewal::Broken => machine.handle_broken(now),
                AtRenewal::Close => machine.handle_close("closed".into()),
            }
            let end = machine.lease().end();
            holds(end <= most, || format!("believed until {end:?}, and answered until {most:?}"))?;
            if let Renewal::AtMost(at_most) = renewal {
                holds(end <= begun + at_most, || "held for longer than the longest hold".into())?;
            }
            match machine.next(now) {
                RenewalStep::Lost(_) => lost = true,
                RenewalStep::WaitUntil(until) => {
                    holds(!lost, || "what was lost is had again".into())?;
                    holds(until > now && machine.lease().is_held(now), || {
                        format!("waits for {until:?} at {now:?}")
                    })?;
                }
                RenewalStep::Renew(_) => {
                    holds(!lost && machine.lease().is_held(now), || "renews what it has not".into())?;
                }
            }
        }
        Ok(())
    });
}

#[derive(Clone, Debug)]
enum AtRound {
    Fence(usize, Fence),
    Refused(usize, Option<HolderInfo>),
    Fault(usize, bool),
    AskAgain(usize),
    Next,
}

fn at_round() -> impl Strategy<Value = AtRound> {
    let member = || 0..8_usize;
    prop_oneof![
        4 => Just(AtRound::Next),
        8 => (member(), fence()).prop_map(|(member, fence)| AtRound::Fence(member, fence)),
        2 => (member(), prop::option::of(holding())).prop_map(|(member, by)| AtRound::Refused(member, by)),
        2 => (member(), any::<bool>()).prop_map(|(member, lasting)| AtRound::Fault(member, lasting)),
        1 => member().prop_map(AtRound::AskAgain),
    ]
}

/// A granted fence is the greatest answer of exactly a majority; unknown members change nothing.
#[test]
fn a_round_grants_only_what_a_majority_answered() {
    let events = vec((at_round(), leap()), 1..80);
    hunt(4_000, (1..7_usize, events), |(members, events)| {
        let mut now = Instant::from_nanos(0);
        let until = Instant::from_nanos(60_000_000_000);
        let mut round = Round::new(members, until, 0);
        let mut answered: Vec<Vec<Fence>> = vec![Vec::new(); members];
        for (event, later) in events {
            now = after(now, later / 100);
            match event {
                AtRound::Fence(member, fence) => {
                    round.handle_fence(member, fence);
                    if let Some(of_it) = answered.get_mut(member) {
                        of_it.push(fence);
                    }
                }
                AtRound::Refused(member, by) => round.handle_refused(member, by),
                AtRound::Fault(member, lasting) => round.handle_fault(member, fault(lasting)),
                AtRound::AskAgain(member) => round.ask_again(member),
                AtRound::Next => {}
            }
            let (held, hopeless) = (round.is_held_elsewhere(), round.is_hopeless());
            match round.next(now) {
                RoundAction::Granted { fence } => {
                    let exactly = answered.iter().filter(|of_it| of_it.contains(&fence)).count();
                    holds(exactly >= majority_of(members), || format!("{exactly} answered {fence}"))?;
                    holds(!held && !hopeless && now < until, || format!("granted in vain: {round:?}"))?;
                }
                RoundAction::Grant { member } | RoundAction::Raise { member, .. } => {
                    holds(member < members, || format!("no member {member}"))?;
                }
                RoundAction::WaitUntil(at) => holds(at > now, || format!("waits for {at:?} at {now:?}"))?,
                RoundAction::Failed => {}
            }
        }
        Ok(())
    });
}

/// While each member answers once at most, a decision is final; it has come once all have answered.
#[test]
fn a_ballot_is_done_only_by_a_majority() {
    let answers = vec((0..8_usize, prop::option::of(hold_answer())), 0..40);
    hunt(4_000, (1..7_usize, answers), |(members, answers)| {
        let mut ballot = Ballot::new(members);
        let (mut done, mut answered) = (vec![false; members], vec![false; members]);
        let (mut once, mut decided) = (true, None);
        for (member, answer) in answers {
            if let Some(it) = done.get_mut(member) {
                *it |= answer == Some(HoldAnswer::Done);
            }
            ballot.handle(member, answer.ok_or_else(|| fault(false)));
            let (by, vote) = (done.iter().filter(|it| **it).count(), ballot.vote());
            if vote == Vote::Done {
                holds(by >= majority_of(members), || format!("done by {by} of {members}"))?;
            }
            once &= !answered.get_mut(member).is_some_and(|it| mem::replace(it, true));
            if !once {
                continue;
            }
            let now = mem::discriminant(&vote);
            holds(decided.is_none_or(|before| before == now), || format!("{decided:?} became {vote:?}"))?;
            let all = answered.iter().all(|it| *it);
            holds(!all || vote != Vote::Open, || "all have answered".into())?;
            holds(vote == Vote::Done || by < majority_of(members), || {
                format!("{by} have done it: {vote:?}")
            })?;
            decided = (vote != Vote::Open).then_some(now).or(decided);
        }
        Ok(())
    });
}

#[derive(Clone, Debug)]
enum WaiterEvent {
    Ask,
    Answer(GrantAnswer),
    Untold,
    Leave,
    First(Duration),
    Granted(Fence, Ttl),
    AskAgain,
    All,
}

fn waiter_event() -> impl Strategy<Value = WaiterEvent> {
    prop_oneof![
        5 => Just(WaiterEvent::Ask),
        6 => grant_answer().prop_map(WaiterEvent::Answer),
        1 => Just(WaiterEvent::Untold),
        1 => Just(WaiterEvent::Leave),
        2 => foreign_time().prop_map(WaiterEvent::First),
        1 => (fence(), ttl()).prop_map(|(fence, lasts)| WaiterEvent::Granted(fence, lasts)),
        1 => Just(WaiterEvent::AskAgain),
        1 => Just(WaiterEvent::All),
    ]
}

/// A push may get lost: whatever happens, one of this process's waiters in a queue asks again in time.
#[test]
fn a_waiter_of_each_queue_asks_again_in_time_whatever_was_pushed() {
    const WHO: u128 = 4;
    let events = vec((0..WHO, waiter_event(), 0..2_000_000_000_u64), 1..50);
    hunt(4_000, (any::<u64>(), events), |(seed, events)| {
        let waiting = WaiterRegistry::new(seed);
        let attempt =
            |who: u128| Attempt::new(Claim::exclusive(key()), Holder::from_bits(who + 1), None, Ttl::DEFAULT);
        let mut now = Instant::from_nanos(1_000_000_000);
        // The waiters that have no answer yet, and those that consider themselves queued.
        let (mut asking, mut stands) = ([false; WHO as usize], [false; WHO as usize]);
        for (who, event, later) in events {
            now = now + Duration::from_nanos(later);
            let (attempt, of) = (attempt(who), usize::try_from(who).expect("few"));
            let holder = attempt.holder;
            match event {
                WaiterEvent::Ask => {
                    waiting.asks(holder, None, now);
                    (asking[of], stands[of]) = (true, false);
                }
                WaiterEvent::Answer(answer) if asking[of] => {
                    waiting.answered(&attempt, &answer, now);
                    asking[of] = matches!(answer, GrantAnswer::Unfinished | GrantAnswer::TooLate { .. });
                    if asking[of] {
                        // It asks again at once.
                        waiting.asks(holder, None, now);
                    }
                    stands[of] = matches!(answer, GrantAnswer::Busy { place: Some(_), .. });
                }
                WaiterEvent::Untold => drop(waiting.cannot_be_told(holder)),
                WaiterEvent::Leave => {
                    waiting.leave(holder, now);
                    (asking[of], stands[of]) = (false, false);
                }
                WaiterEvent::First(left) => {
                    waiting.hears(holder, PushEvent::First { left }, None, now, now);
                }
                WaiterEvent::Granted(fence, lasts) => {
                    waiting.hears(holder, PushEvent::Granted { fence, lasts }, None, now, now);
                    stands[of] = false;
                }
                WaiterEvent::AskAgain => {
                    waiting.hears(holder, PushEvent::AskAgain, None, now, now);
                }
                WaiterEvent::All => waiting.ask_for_all(),
                WaiterEvent::Answer(_) => {}
            }
            is_asked_for(&waiting, &mut asking, &mut stands, now)?;
        }
        Ok(())
    });
}

/// If any waiter is queued, one asks now or soon. Waiters that are told to ask do so.
fn is_asked_for(waiting: &WaiterRegistry, asking: &mut [bool], stands: &mut [bool], now: Instant) -> Verdict {
    let mut next = None;
    for who in 0..stands.len() {
        if !stands[who] || asking[who] {
            continue;
        }
        let sleeps = Asleep::default();
        let holder = Holder::from_bits(who as u128 + 1);
        let mut context = Context::from_waker(Waker::noop());
        match waiting.called(holder, &sleeps).as_mut().poll(&mut context) {
            Poll::Ready(Wake::Granted { .. }) => stands[who] = false,
            Poll::Ready(_) => {
                waiting.asks(holder, None, now);
                (asking[who], stands[who]) = (true, false);
            }
            Poll::Pending => {
                let until = sleeps.until();
                next = [next, until].into_iter().flatten().min();
            }
        }
    }
    let waits = stands.contains(&true) && !asking.contains(&true);
    let soon = next.is_some_and(|next| next <= now + WaitQueue::RE_ASK);
    holds(!waits || soon, || format!("{stands:?} wait at {now:?}, and ask at {next:?}"))
}
