use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::{
    Attempt, Claim, Content, GrantAnswer, HoldAnswer, Holder, Label, LastFence, Lock, News, Place,
    RaiseAnswer, Tenancy, Tenant, Ticket, Ttl, Wait,
};

fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

fn attempt(who: u128, keys: &[&str], ttl_s: u64) -> Attempt {
    let claim = Claim::exclusive_all(keys.iter().map(|name| key(name))).unwrap();
    let ttl = Ttl::new(Duration::from_secs(ttl_s)).unwrap();
    Attempt::new(claim, Holder::from_bits(who), Label::new("web-3").ok(), ttl)
}

fn at(second: u64) -> Scene<'static> {
    let now = Stamp::from_micros(second * 1_000_000);
    Scene::new(now, Fence::new(now.as_micros()).unwrap())
}

fn ask(records: &mut Records, attempt: &Attempt, second: u64) -> GrantAnswer {
    grant(records, attempt, None, &at(second))
}

fn grant(
    records: &mut Records,
    attempt: &Attempt,
    not_after: Option<Stamp>,
    scene: &Scene<'_>,
) -> GrantAnswer {
    let request = Request::Grant { attempt: attempt.clone(), wait: None, not_after };
    match apply(records, request, scene).answer {
        Answer::Grant(answer) => answer,
        other => panic!("{other:?}"),
    }
}

fn renew(records: &mut Records, attempt: &Attempt, scene: &Scene<'_>) -> HoldAnswer {
    match apply(records, Request::Renew(attempt.clone()), scene).answer {
        Answer::Renew(answer) => answer,
        other => panic!("{other:?}"),
    }
}

fn release(records: &mut Records, attempt: &Attempt, scene: &Scene<'_>) -> HoldAnswer {
    match apply(records, Request::Release(attempt.clone()), scene).answer {
        Answer::Release(answer) => answer,
        other => panic!("{other:?}"),
    }
}

fn granted(number: u64) -> GrantAnswer {
    GrantAnswer::Granted { fence: Fence::new(number).unwrap() }
}

#[test]
fn a_free_key_is_granted_and_a_taken_one_says_by_whom_and_for_how_long() {
    let mut records = Records::default();
    assert_eq!(ask(&mut records, &attempt(1, &["a"], 10), 100), granted(100_000_000));
    let tenant = Tenant::Holder { holder: Holder::from_bits(1), label: Label::new("web-3").ok() };
    let left = Some(Duration::from_secs(7));
    let held_by = Tenancy::exclusive(key("a"), tenant, Fence::new(100_000_000), left);
    assert_eq!(ask(&mut records, &attempt(2, &["a"], 10), 103), GrantAnswer::Busy { held_by, place: None });
    assert_eq!(ask(&mut records, &attempt(2, &["a"], 10), 110), granted(110_000_000));
}

#[test]
fn asking_again_with_the_same_attempt_is_granted_again_and_lasts_anew() {
    let mut records = Records::default();
    ask(&mut records, &attempt(1, &["a"], 10), 100);
    assert_eq!(ask(&mut records, &attempt(1, &["a"], 10), 105), granted(105_000_000));
    assert!(matches!(ask(&mut records, &attempt(2, &["a"], 10), 114), GrantAnswer::Busy { .. }));
}

#[test]
fn several_keys_are_granted_together_under_one_fence_or_not_at_all() {
    let mut records = Records::default();
    records.fences.insert(key("b"), LastFence::new(Fence::new(900_000_000).unwrap(), at(999).now));
    assert_eq!(ask(&mut records, &attempt(1, &["a", "b"], 10), 100), granted(900_000_001));
    let before = records.clone();
    let GrantAnswer::Busy { held_by, .. } = ask(&mut records, &attempt(2, &["A", "b", "c"], 10), 101) else {
        panic!("b is taken")
    };
    assert_eq!((held_by.key, &records), (key("b"), &before));
}

#[test]
fn a_request_that_comes_too_late_changes_nothing() {
    let mut records = Records::default();
    let late = grant(&mut records, &attempt(1, &["a"], 10), Some(at(99).now), &at(100));
    assert_eq!(late, GrantAnswer::TooLate { now: at(100).now });
    assert_eq!(records, Records::default());
    let in_time = grant(&mut records, &attempt(1, &["a"], 10), Some(at(100).now), &at(100));
    assert_eq!(in_time, granted(100_000_000));
}

#[test]
fn what_is_no_lock_is_named_and_left_alone() {
    let mut records = Records::default();
    records.locks.insert(key("a"), Lock::new(Content::NotALock, None));
    let before = records.clone();
    let answer = ask(&mut records, &attempt(1, &["a"], 10), 100);
    assert_eq!(answer, GrantAnswer::NotALock { key: key("a") });
    renew(&mut records, &attempt(1, &["a"], 10), &at(100));
    release(&mut records, &attempt(1, &["a"], 10), &at(100));
    assert_eq!(records, before);
}

#[test]
fn used_up_fences_are_an_error_and_not_a_repetition() {
    let mut records = Records::default();
    records.fences.insert(key("a"), LastFence::new(Fence::MAX, at(999).now));
    let answer = ask(&mut records, &attempt(1, &["a"], 10), 100);
    assert_eq!(answer, GrantAnswer::FencesSpent { key: key("a") });
    assert!(records.locks.is_empty());
}

#[test]
fn a_delayed_renewal_does_not_cut_off_a_longer_one() {
    let mut records = Records::default();
    ask(&mut records, &attempt(1, &["a"], 10), 100);
    assert_eq!(renew(&mut records, &attempt(1, &["a"], 60), &at(101)), HoldAnswer::Done);
    assert_eq!(renew(&mut records, &attempt(1, &["a"], 10), &at(102)), HoldAnswer::Done);
    assert!(records.lock(&key("a"), at(160).now).is_some());
    assert!(records.lock(&key("a"), at(161).now).is_none());
}

/// The first ask was held up on a connection that broke; the second was granted and its lease renewed for longer.
#[test]
fn a_delayed_ask_does_not_cut_off_a_renewal() {
    let mut records = Records::default();
    ask(&mut records, &attempt(1, &["a"], 10), 100);
    assert_eq!(renew(&mut records, &attempt(1, &["a"], 1000), &at(101)), HoldAnswer::Done);
    ask(&mut records, &attempt(1, &["a"], 10), 102);
    assert!(records.lock(&key("a"), at(1100).now).is_some());
    assert!(records.lock(&key("a"), at(1101).now).is_none());
    assert!(records.fence(&key("a"), at(2100).now).is_some(), "the fence outlives the lease");
}

#[test]
fn a_release_takes_back_what_is_ours_and_says_what_is_not() {
    let mut records = Records::default();
    ask(&mut records, &attempt(1, &["a", "b"], 10), 100);
    records.locks.insert(key("a"), Lock::new(Content::Foreign(b"x"[..].into()), None));
    let answer = release(&mut records, &attempt(1, &["a", "b"], 10), &at(101));
    let foreign = Tenancy::exclusive(key("a"), Tenant::Foreign { value: b"x"[..].into() }, None, None);
    assert_eq!(answer, HoldAnswer::NotHeld { key: key("a"), held_by: Some(foreign) });
    assert_eq!(records.locks.keys().collect::<Vec<_>>(), [&key("a")]);
}

fn wait(records: &mut Records, attempt: &Attempt, scene: &Scene<'_>) -> (GrantAnswer, Vec<(u128, News)>) {
    wait_as(records, attempt, Wait { channel: Some(Channel::new("here")), ..Wait::default() }, scene)
}

fn wait_as(
    records: &mut Records,
    attempt: &Attempt,
    wait: Wait,
    scene: &Scene<'_>,
) -> (GrantAnswer, Vec<(u128, News)>) {
    let request = Request::Grant { attempt: attempt.clone(), wait: Some(wait), not_after: None };
    let served = apply(records, request, scene);
    let Answer::Grant(answer) = served.answer else { panic!("{:?}", served.answer) };
    (answer, told(&served.pushes))
}

fn told(pushes: &[Push]) -> Vec<(u128, News)> {
    pushes.iter().map(|push| (push.holder.bits(), push.news)).collect()
}

fn pushed(records: &mut Records, request: Request, scene: &Scene<'_>) -> Vec<(u128, News)> {
    told(&apply(records, request, scene).pushes)
}

fn place(answer: &GrantAnswer) -> Place {
    match answer {
        GrantAnswer::Busy { place: Some(place), .. } => *place,
        other => panic!("{other:?}"),
    }
}

fn handed(number: u64) -> News {
    News::Granted { fence: Fence::new(number).unwrap(), lasts: Ttl::new(Line::WINDOW).unwrap() }
}

const FIRST: News = News::First { left: Line::WINDOW };

/// One holder, and three in line behind it.
fn a_line() -> Records {
    let mut records = Records::default();
    ask(&mut records, &attempt(1, &["a"], 10), 100);
    for who in 2..=4 {
        let (answer, pushes) = wait(&mut records, &attempt(who, &["a"], 10), &at(100 + who as u64));
        assert_eq!((u128::from(place(&answer).before) + 2, pushes), (who, vec![]));
    }
    records
}

#[derive(Debug)]
struct Deaf(&'static str);

impl Ears for Deaf {
    fn listens(&self, channel: &Channel) -> bool {
        channel.as_bytes() != self.0.as_bytes()
    }
}

#[test]
fn a_release_hands_the_lock_for_a_window_to_who_came_first_and_tells_the_next() {
    let mut records = a_line();
    let pushes = pushed(&mut records, Request::Release(attempt(1, &["a"], 10)), &at(105));
    assert_eq!(pushes, [(2, handed(105_000_000)), (3, FIRST)]);
    let lock = records.lock(&key("a"), at(105).now).unwrap();
    assert_eq!(lock.ends, Some(at(107).now));
    assert!(matches!(lock.content, Content::Lease { awaited: true, .. }));
    assert_eq!(renew(&mut records, &attempt(2, &["a"], 10), &at(106)), HoldAnswer::Done);
    assert_eq!(records.lock(&key("a"), at(106).now).unwrap().ends, Some(at(116).now));
}

#[test]
fn who_is_handed_the_lock_and_asks_all_the_same_is_granted_it() {
    let mut records = a_line();
    release(&mut records, &attempt(1, &["a"], 10), &at(105));
    let (answer, pushes) = wait(&mut records, &attempt(2, &["a"], 10), &at(106));
    assert_eq!((answer, pushes), (granted(106_000_000), vec![]));
    assert!(records.line(&key("a"), at(106).now).unwrap().unclaimed().is_none());
}

#[test]
fn a_try_does_not_slip_past_the_line() {
    let mut records = a_line();
    let (answer, late) = (ask(&mut records, &attempt(9, &["a"], 10), 110), at(110));
    let GrantAnswer::Busy { held_by, place: None } = answer else { panic!("{answer:?}") };
    assert!(matches!(held_by.tenant, Tenant::Holder { holder, .. } if holder == Holder::from_bits(2)));
    assert!(records.is_held_by(&key("a"), Holder::from_bits(2), late.now));
}

#[test]
fn whoever_goes_leaves_the_line_and_nothing_stays_behind() {
    let mut records = a_line();
    for who in [3, 1, 2, 4] {
        release(&mut records, &attempt(who, &["a"], 10), &at(105));
    }
    assert!(records.locks.is_empty() && records.lines.is_empty());
}

#[test]
fn nobody_is_handed_a_lock_who_does_not_listen() {
    let mut records = Records::default();
    ask(&mut records, &attempt(1, &["a"], 10), 100);
    for (who, channel) in [(2, "gone"), (3, "gone"), (4, "here"), (5, "gone")] {
        let wait = Wait { channel: Some(Channel::new(channel)), ..Wait::default() };
        wait_as(&mut records, &attempt(who, &["a"], 10), wait, &at(101));
    }
    let scene = at(105);
    let scene = scene.with_ears(&Deaf("gone"));
    let pushes = pushed(&mut records, Request::Release(attempt(1, &["a"], 10)), &scene);
    assert_eq!(pushes, [(4, handed(105_000_000)), (5, FIRST)]);
}

#[test]
fn a_process_that_lets_a_lock_lie_costs_one_window_for_all_its_waiters() {
    let mut records = Records::default();
    ask(&mut records, &attempt(1, &["a"], 10), 100);
    for (who, channel) in [(2, "stopped"), (3, "stopped"), (4, "here")] {
        let wait = Wait { channel: Some(Channel::new(channel)), ..Wait::default() };
        wait_as(&mut records, &attempt(who, &["a"], 10), wait, &at(101));
    }
    release(&mut records, &attempt(1, &["a"], 10), &at(105));
    let pushes = pushed(&mut records, Request::Advance(vec![key("a")]), &at(107));
    assert_eq!(pushes, [(4, handed(107_000_000))]);
    // It comes to itself again, and finds its place before those who came later.
    let ticket = Some((key("a"), Ticket::new(101_000_001)));
    let (answer, _) = wait(&mut records, &attempt(6, &["a"], 10), &at(108));
    assert_eq!(place(&answer).before, 0);
    let wait = Wait { channel: Some(Channel::new("stopped")), ticket, line_limit: None };
    let (answer, _) = wait_as(&mut records, &attempt(3, &["a"], 10), wait, &at(108));
    assert_eq!(place(&answer), Place { ticket: Ticket::new(101_000_001), before: 0, stood: false });
    let pushes = pushed(&mut records, Request::Release(attempt(4, &["a"], 10)), &at(108));
    assert_eq!(pushes, [(3, handed(108_000_000)), (6, FIRST)]);
}

#[test]
fn no_request_clears_away_more_than_a_hundred_waiters() {
    let mut records = Records::default();
    ask(&mut records, &attempt(1, &["a"], 10), 100);
    for who in 2..=251 {
        let wait = Wait { channel: Some(Channel::new("gone")), ..Wait::default() };
        wait_as(&mut records, &attempt(who, &["a"], 10), wait, &at(101));
    }
    let scene = at(105);
    let scene = scene.with_ears(&Deaf("gone"));
    for left in [150, 50] {
        let served = apply(&mut records, Request::Release(attempt(1, &["a"], 10)), &scene);
        assert_eq!((served.unfinished, served.pushes), (vec![key("a")], vec![]));
        assert_eq!(records.line(&key("a"), scene.now).unwrap().len(), left);
    }
    // Nobody slips past those who are yet to be cleared away.
    assert_eq!(grant(&mut records.clone(), &attempt(1000, &["a"], 10), None, &scene), granted(105_000_000));
    let served = apply(&mut records, Request::Advance(vec![key("a")]), &scene);
    assert!(served.unfinished.is_empty() && records.lines.is_empty() && records.locks.is_empty());
}

/// A head that gives up would else leave a line in which nobody knows when the holder's lease ends.
#[test]
fn who_stands_first_because_the_first_gave_up_is_told_when_the_lease_ends() {
    let mut records = a_line();
    let pushes = pushed(&mut records, Request::Release(attempt(3, &["a"], 10)), &at(105));
    assert_eq!(pushes, []);
    let pushes = pushed(&mut records, Request::Release(attempt(2, &["a"], 10)), &at(106));
    assert_eq!(pushes, [(4, News::First { left: Duration::from_secs(4) })]);
}

/// Whoever is heard will hear of what its process was handed, too; struck again at once, it would lose its place a second time.
#[test]
fn a_process_that_asks_is_not_passed_over_for_what_another_of_its_waiters_let_lie() {
    let mut records = Records::default();
    ask(&mut records, &attempt(1, &["a"], 10), 100);
    for who in 2..=4 {
        wait(&mut records, &attempt(who, &["a"], 10), &at(101));
    }
    release(&mut records, &attempt(1, &["a"], 10), &at(102));
    // Number 2 was handed it and did not hear; its sibling asks when that has ended.
    let (answer, pushes) = wait(&mut records, &attempt(4, &["a"], 10), &at(104));
    assert_eq!(pushes, [(3, handed(104_000_000)), (4, FIRST)]);
    assert_eq!(place(&answer).before, 0);
}

/// Whoever is behind the same channel may be as dead as the one that was handed the lock.
#[test]
fn somebody_of_another_process_is_told_when_to_ask_if_one_stands_near() {
    let lines = [(vec!["x", "x", "x", "y"], 5), (vec!["x"; 9], 3)];
    for (channels, witness) in lines {
        let mut records = Records::default();
        ask(&mut records, &attempt(1, &["a"], 10), 100);
        for (who, channel) in (2..).zip(channels) {
            let wait = Wait { channel: Some(Channel::new(channel)), ..Wait::default() };
            wait_as(&mut records, &attempt(who, &["a"], 10), wait, &at(101));
        }
        let pushes = pushed(&mut records, Request::Release(attempt(1, &["a"], 10)), &at(105));
        assert_eq!(pushes, [(2, handed(105_000_000)), (witness, FIRST)]);
    }
}

#[test]
fn a_line_can_be_full() {
    let mut records = a_line();
    let wait = |line_limit| Wait { line_limit: Some(line_limit), ..Wait::default() };
    let (answer, _) = wait_as(&mut records, &attempt(5, &["a"], 10), wait(3), &at(105));
    assert!(matches!(answer, GrantAnswer::LineFull { length: 3, .. }), "{answer:?}");
    assert_eq!(records, a_line());
    // Who stands there already is not turned away.
    let (answer, _) = wait_as(&mut records, &attempt(3, &["a"], 10), wait(3), &at(105));
    assert!(place(&answer).stood);
    let (answer, _) = wait_as(&mut records, &attempt(5, &["a"], 10), wait(4), &at(105));
    assert_eq!(place(&answer).before, 3);
}

#[test]
fn a_line_that_nobody_asks_about_is_forgotten() {
    let mut records = a_line();
    let end = 104 + Line::KEPT_FOR.as_secs();
    let (answer, pushes) = wait(&mut records.clone(), &attempt(9, &["a"], 10), &at(end - 1));
    assert_eq!((place(&answer).before, pushes.len()), (2, 2));
    assert_eq!(wait(&mut records, &attempt(9, &["a"], 10), &at(end)), (granted(end * 1_000_000), vec![]));
}

#[test]
fn who_waits_for_several_keys_keeps_those_it_has_and_is_handed_the_others_one_by_one() {
    let mut records = Records::default();
    ask(&mut records, &attempt(1, &["b"], 10), 100);
    ask(&mut records, &attempt(2, &["c"], 10), 100);
    let all = attempt(3, &["a", "b", "c"], 10);
    let GrantAnswer::Busy { held_by, .. } = wait(&mut records, &all, &at(101)).0 else { panic!() };
    assert_eq!(held_by.key, key("b"));
    assert!(matches!(ask(&mut records, &attempt(4, &["a"], 10), 102), GrantAnswer::Busy { .. }));
    let pushes = pushed(&mut records, Request::Release(attempt(1, &["b"], 10)), &at(103));
    assert_eq!(pushes, [(3, News::AskAgain)]);
    let GrantAnswer::Busy { held_by, .. } = wait(&mut records, &all, &at(104)).0 else { panic!() };
    assert_eq!(held_by.key, key("c"));
    assert!(records.lock(&key("a"), at(113).now).is_some(), "what it has is renewed by asking");
    assert_eq!(
        pushed(&mut records, Request::Release(attempt(2, &["c"], 10)), &at(105)),
        [(3, News::AskAgain)]
    );
    assert_eq!(wait(&mut records, &all, &at(106)).0, granted(106_000_000));
    assert_eq!(
        ["a", "b", "c"].map(|name| records.fence(&key(name), at(106).now)),
        [Fence::new(106_000_000); 3]
    );
    release(&mut records, &all, &at(107));
    assert!(records.locks.is_empty() && records.lines.is_empty());
}

#[test]
fn who_has_lost_a_key_gives_back_those_behind_it_while_it_waits_there() {
    let mut records = Records::default();
    ask(&mut records, &attempt(1, &["c"], 10), 100);
    let all = attempt(3, &["a", "b", "c"], 10);
    wait(&mut records, &all, &at(101));
    wait(&mut records, &attempt(5, &["b"], 10), &at(102));
    records.locks.remove(&key("a"));
    ask(&mut records, &attempt(4, &["a"], 10), 103);
    let (answer, pushes) = wait(&mut records, &all, &at(104));
    assert_eq!(place(&answer).before, 0);
    assert_eq!(pushes, [(5, handed(104_000_000))]);
    assert!(records.line(&key("c"), at(104).now).is_none());
}

#[test]
fn an_onlooker_sees_the_line_in_order() {
    let mut records = a_line();
    let served = apply(&mut records, Request::Inspect(key("a")), &at(110));
    let Answer::Inspect(state) = served.answer else { panic!() };
    let line: Vec<_> =
        state.line.iter().map(|waiter| (waiter.holder.bits(), waiter.waited.as_secs())).collect();
    assert_eq!(line, [(2, 8), (3, 7), (4, 6)]);
}

proptest! {
    /// Random histories of waiters, holders, strangers and the deaf, on two keys.
    ///
    /// After each request: fences rose with every grant, answered or pushed; a key that was asked about is not free while
    /// somebody waits for it; who was handed it stood before everybody that can be told; no lease of another's was touched.
    #[test]
    fn no_history_leaves_a_waiter_beside_a_free_key(
        steps in prop::collection::vec((0..8u8, 1..6u128, 0..3u8, 0..3u64), 1..60),
    ) {
        let mut records = Records::default();
        let mut now = 100;
        let mut last = std::collections::BTreeMap::<Key, Fence>::new();
        for (what, who, keys, pass) in steps {
            now += pass;
            let keys: &[&str] = [&["a"][..], &["b"], &["a", "b"]][usize::from(keys)];
            let attempt = attempt(who, keys, 10);
            let scene = at(now);
            let scene = scene.with_ears(&Deaf("gone"));
            let channel = Some(Channel::new(if who == 4 { "gone" } else { "here" }));
            let request = match what {
                0..=2 => {
                    let wait = Wait { channel, ..Wait::default() };
                    Request::Grant { attempt: attempt.clone(), wait: Some(wait), not_after: None }
                }
                3 => Request::Grant { attempt: attempt.clone(), wait: None, not_after: None },
                4 => Request::Renew(attempt.clone()),
                5 | 6 => Request::Release(attempt.clone()),
                _ => {
                    records.locks.remove(&key("a"));
                    continue;
                }
            };
            let before = records.clone();
            let Served { answer, pushes, unfinished } = apply(&mut records, request, &scene);
            prop_assert!(unfinished.is_empty());
            let mut fences = Vec::new();
            if let Answer::Grant(GrantAnswer::Granted { fence }) = answer {
                fences.extend(attempt.claim.keys().map(|key| (key.clone(), fence)));
            }
            for push in &pushes {
                let news_only = matches!(push.news, News::First { .. });
                prop_assert!(push.to != Some(Channel::new("gone")) || news_only);
                if let News::Granted { fence, .. } = push.news {
                    fences.push((push.key.clone(), fence));
                    let line = before.line(&push.key, scene.now);
                    let passed = line.into_iter().flat_map(Line::waiters)
                        .take_while(|(_, standing)| standing.holder != push.holder)
                        .find(|(_, it)| it.channel != Some(Channel::new("gone")) && it.holder != attempt.holder);
                    prop_assert!(passed.is_none(), "{:?} was passed over by {:?}", passed, push);
                }
            }
            for (key, fence) in fences {
                prop_assert!(last.insert(key, fence).is_none_or(|last| fence > last));
            }
            for key in attempt.claim.keys() {
                let line = records.line(key, scene.now).map_or(0, Line::len);
                prop_assert!(line == 0 || records.lock(key, scene.now).is_some(), "{line} wait for a free key");
                let (was, is) = (before.lock(key, scene.now), records.lock(key, scene.now));
                let other = was.filter(|_| !before.is_held_by(key, attempt.holder, scene.now));
                if let Some(other) = other {
                    let is = is.map(|lock| (lock.ends, format!("{:?}", lock.content).replace("true", "false")));
                    prop_assert_eq!(is, Some((other.ends, format!("{:?}", other.content).replace("true", "false"))));
                }
            }
        }
    }
}

const MAX_TTL: u64 = 60;

/// The same attempt, proposing a fence to a member of a quorum.
fn proposing(attempt: &Attempt, fence: u64) -> Attempt {
    let max_ttl = Ttl::new(Duration::from_secs(MAX_TTL)).unwrap();
    attempt.at_member(attempt.holder, crate::Proposal { fence: Fence::new(fence).unwrap(), max_ttl })
}

fn rejoin(
    records: &mut Records,
    attempt: &Attempt,
    not_after: Option<Stamp>,
    scene: &Scene<'_>,
) -> HoldAnswer {
    match apply(records, Request::Rejoin { attempt: attempt.clone(), not_after }, scene).answer {
        Answer::Rejoin(answer) => answer,
        other => panic!("{other:?}"),
    }
}

fn raise(records: &mut Records, attempt: &Attempt, scene: &Scene<'_>) -> RaiseAnswer {
    match apply(records, Request::Raise(attempt.clone()), scene).answer {
        Answer::Raise(answer) => answer,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_member_grants_the_fence_that_is_proposed_or_the_next() {
    let mut records = Records::default();
    let one = attempt(1, &["a"], 10);
    assert_eq!(ask(&mut records, &proposing(&one, 99_000_000), 100), granted(99_000_000));
    release(&mut records, &one, &at(100));
    assert_eq!(ask(&mut records, &proposing(&attempt(2, &["a"], 10), 98_500_000), 100), granted(99_000_001));
}

#[test]
fn only_the_holder_raises_a_fence_and_none_is_lowered() {
    let mut records = Records::default();
    let one = attempt(1, &["a", "b"], 10);
    let Answer::Grant(GrantAnswer::Granted { .. }) =
        apply(&mut records, Request::Grant { attempt: one.clone(), wait: None, not_after: None }, &at(100))
            .answer
    else {
        panic!()
    };
    let to = |fence| RaiseAnswer::Raised { fence: Fence::new(fence).unwrap() };
    assert_eq!(raise(&mut records, &proposing(&one, 100_000_007), &at(101)), to(100_000_007));
    assert_eq!(raise(&mut records, &proposing(&one, 5), &at(101)), to(100_000_007));
    let before = records.clone();
    let other = raise(&mut records, &proposing(&attempt(2, &["b"], 10), 200_000_000), &at(101));
    assert!(matches!(other, RaiseAnswer::NotHeld { held_by: Some(_), .. }));
    assert_eq!(records, before);
}

#[test]
fn a_member_that_was_away_is_rejoined_with_the_fence_unless_somebody_holds_or_waits() {
    let one = proposing(&attempt(1, &["a"], 10), 100_000_005);
    let mut records = Records::default();
    assert_eq!(rejoin(&mut records, &one, None, &at(100)), HoldAnswer::Done);
    assert_eq!(records.fence(&key("a"), at(100).now), Fence::new(100_000_005));
    assert_eq!(
        ask(&mut records, &proposing(&attempt(2, &["a"], 10), 100_000_001), 111),
        granted(109_000_000)
    );
    let taken = rejoin(&mut records, &one, None, &at(112));
    assert!(matches!(taken, HoldAnswer::NotHeld { held_by: Some(_), .. }), "{taken:?}");
    wait(&mut records, &attempt(3, &["a"], 10), &at(112));
    let waited_for = rejoin(&mut records, &one, None, &at(121));
    assert!(matches!(waited_for, HoldAnswer::NotHeld { held_by: Some(_), .. }), "{waited_for:?}");
    assert!(records.is_held_by(&key("a"), Holder::from_bits(3), at(121).now));
}

/// A renewal that is delayed past the release would bring the attempt back to life.
#[test]
fn a_member_is_not_rejoined_too_late_but_a_lease_that_lasts_is_renewed() {
    let one = proposing(&attempt(1, &["a"], 10), 100_000_005);
    let mut records = Records::default();
    let nobody = HoldAnswer::NotHeld { key: key("a"), held_by: None };
    assert_eq!(rejoin(&mut records, &one, Some(at(99).now), &at(100)), nobody);
    assert_eq!(records, Records::default());
    assert_eq!(rejoin(&mut records, &one, Some(at(100).now), &at(100)), HoldAnswer::Done);
    assert_eq!(rejoin(&mut records, &one, Some(at(100).now), &at(105)), HoldAnswer::Done);
    assert!(records.lock(&key("a"), at(114).now).is_some());
}

#[test]
fn a_member_that_may_have_forgotten_abstains_for_the_longest_ttl_and_releases_all_the_same() {
    let one = attempt(1, &["a"], 10);
    let (mut records, end) = (Records::default(), 100 + MAX_TTL + 1);
    records.voided = Some(at(100).now);
    for request in [
        Request::Grant { attempt: proposing(&one, 100_000_000), wait: None, not_after: None },
        Request::Rejoin { attempt: proposing(&one, 100_000_000), not_after: None },
        Request::Raise(proposing(&one, 100_000_000)),
        Request::Renew(proposing(&one, 100_000_000)),
    ] {
        let before = records.clone();
        let answer = apply(&mut records, request, &at(end - 3)).answer;
        assert_eq!((answer, &records), (Answer::Quarantined { left: Duration::from_secs(3) }, &before));
    }
    assert!(
        matches!(ask(&mut records, &one, end - 3), GrantAnswer::Granted { .. }),
        "without a quorum it serves"
    );
    assert_eq!(release(&mut records, &one, &at(end - 2)), HoldAnswer::Done);
    assert!(matches!(ask(&mut records, &proposing(&one, 1), end), GrantAnswer::Granted { .. }));
}

/// One step of the little world below.
#[derive(Clone, Copy, Debug)]
enum Move {
    Grant(u128),
    Renew(u128),
    Release(u128),
    /// Another program takes the key if it is free.
    Foreign,
    /// An operator deletes the key, or a server loses it.
    Delete,
    /// The store loses everything.
    Flush,
    /// Time passes.
    Pass(u64),
}

/// Every history of seven steps, by two attempts and a hostile world, on one key.
///
/// After each step: fences rose with every grant; nobody's lease was ended, lengthened or replaced by somebody else's request;
/// everything of ours has an end.
#[test]
fn no_short_history_breaks_exclusion_or_the_order_of_fences() {
    #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
    struct World {
        records: String,
        now: u64,
        last: Option<Fence>,
    }
    let moves = [1, 2].into_iter().flat_map(|who| [Move::Grant(who), Move::Renew(who), Move::Release(who)]);
    let moves: Vec<_> = moves
        .chain([Move::Foreign, Move::Delete, Move::Flush, Move::Pass(1), Move::Pass(11), Move::Pass(1000)])
        .collect();
    let name = key("a");
    let mut frontier = vec![(Records::default(), 100, None::<Fence>)];
    let mut seen = HashSet::new();
    for _ in 0..7 {
        let mut next = Vec::new();
        for (records, now, last) in &frontier {
            for step in &moves {
                let (mut records, mut now, mut last) = (records.clone(), *now, *last);
                let scene = at(now);
                let owner = records.lock(&name, scene.now).cloned();
                match *step {
                    Move::Grant(who) => match ask(&mut records, &attempt(who, &["a"], 10), now) {
                        GrantAnswer::Granted { fence } => {
                            let own = owner.is_none_or(|lock| {
                                matches!(lock.content, Content::Lease { holder, .. } if holder == Holder::from_bits(who))
                            });
                            assert!(own, "granted over another's lease");
                            assert!(last.is_none_or(|last| fence > last), "{fence} after {last:?}");
                            last = Some(fence);
                        }
                        _ => assert_eq!(records.lock(&name, scene.now), owner.as_ref()),
                    },
                    Move::Renew(who) => {
                        let done = renew(&mut records, &attempt(who, &["a"], 10), &scene) == HoldAnswer::Done;
                        let after = records.lock(&name, scene.now).map(|lock| lock.content.clone());
                        assert_eq!(after, owner.as_ref().map(|lock| lock.content.clone()));
                        assert!(!done || owner.is_some());
                    }
                    Move::Release(who) => {
                        let answer = release(&mut records, &attempt(who, &["a"], 10), &scene);
                        if answer != HoldAnswer::Done {
                            assert_eq!(records.lock(&name, scene.now), owner.as_ref());
                        }
                    }
                    Move::Foreign if owner.is_none() => {
                        let ends = Some(at(now + 5).now);
                        records
                            .locks
                            .insert(name.clone(), Lock::new(Content::Foreign(b"x"[..].into()), ends));
                    }
                    Move::Foreign => {}
                    Move::Delete => drop(records.locks.remove(&name)),
                    Move::Flush => records = Records::default(),
                    Move::Pass(seconds) => now += seconds,
                }
                assert!(records.locks.values().all(|lock| lock.ends.is_some()));
                // A grant takes some time, so that the clock's floor has moved when the next one comes.
                if matches!(step, Move::Grant(_)) {
                    now += 1;
                }
                let world = World { records: format!("{records:?}"), now, last };
                if seen.insert(world) {
                    next.push((records, now, last));
                }
            }
        }
        frontier = next;
    }
    let holders: BTreeSet<_> =
        frontier.iter().flat_map(|(records, ..)| records.locks.len().checked_add(0)).collect();
    assert!(seen.len() > 5_000 && holders.len() == 2, "the search went too shallow: {} worlds", seen.len());
}
