//! Eight processes compete while a minority fails: one guard at a time, rising fences, further grants.

use std::{
    thread,
    time::{Duration, Instant},
};

use faults::{
    history::now,
    judge::{is_long, lasts, no_gap_is_longer_than, nobody_was_deceived, report, slack, sound},
};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng, seq::IndexedRandom as _};

use crate::scene::{Member, Scene};

/// Longer than a member abstains.
const OUTAGE_LIMIT: Duration = Duration::from_secs(10);

const TTL: Duration = Duration::from_secs(2);

/// The longest time without a holder with three members up: one that comes back has handed the lock to
/// a waiter that could not be notified, for a claim window, in which waiters at different members
/// separate, too; and a second to find out which members are silent.
const GAP: Duration = Duration::from_secs(3);

struct MemberFault {
    name: &'static str,
    /// The number of members that fail at once.
    members: usize,
    begin: fn(&Member),
    end: End,
}

enum End {
    Never,
    /// They are repaired in this way once every task was served without them.
    Mended(fn(&Member)),
    AtOnce,
}

servers::tests! {
    fn one_of_five_is_killed() = endures(&Scene::that_forgets_nothing(), &killed("one killed", 1));
    fn two_of_five_are_killed() = endures(&Scene::that_forgets_nothing(), &killed("two killed", 2));
    fn one_of_five_is_stopped_again_and_again() =
        endures(&Scene::that_forgets_nothing(), &stopped("one stopped", 1));
    fn two_of_five_are_stopped_again_and_again() =
        endures(&Scene::that_forgets_nothing(), &stopped("two stopped", 2));
}

#[test]
fn the_way_to_one_of_five_falls_silent_again_and_again() {
    let end = End::Mended(|member| member.way.heal());
    let fault =
        MemberFault { name: "one black-holed", members: 1, begin: |member| member.way.black_hole(), end };
    endures(&Scene::that_forgets_nothing(), &fault);
}

#[test]
fn all_five_forget_their_scripts_again_and_again() {
    let begin = |member: &Member| drop(member.server.text(&["SCRIPT", "FLUSH"]));
    endures(
        &Scene::that_forgets_nothing(),
        &MemberFault { name: "scripts flushed", members: 5, begin, end: End::AtOnce },
    );
}

/// The member abstains until all that it forgot has ended; only then is the next one restarted.
#[test]
fn one_of_five_comes_back_empty_again_and_again() {
    let begin = |member: &Member| {
        member.server.kill_9();
        member.server.restart();
    };
    endures(
        &Scene::that_may_forget(),
        &MemberFault { name: "one came back empty", members: 1, begin, end: End::AtOnce },
    );
}

const fn killed(name: &'static str, members: usize) -> MemberFault {
    MemberFault { name, members, begin: |member| member.server.kill_9(), end: End::Never }
}

const fn stopped(name: &'static str, members: usize) -> MemberFault {
    MemberFault {
        name,
        members,
        begin: |member| member.server.stop(),
        end: End::Mended(|member| member.server.cont()),
    }
}

/// The first member, with the queue, is stopped while all processes end: it hears so late, or never.
#[test]
fn a_stopped_member_forgets_waiters_that_left_meanwhile_and_delays_nobody() {
    let scene = Scene::that_forgets_nothing();
    let mut crowd = scene.crowd(OUTAGE_LIMIT);
    crowd.wait_until_all_were_served_since(0);
    scene.in_flight(&[0]);
    scene.members[0].server.stop();
    crowd.wait_until_all_were_served_since(now());
    crowd.dismiss();
    scene.members[0].server.cont();
    sound(&crowd.parsed_history());

    let begun = now();
    scene.adds_one_to(&mut crowd, OUTAGE_LIMIT);
    let took = crowd.wait_until_all_were_served_since(begun);
    println!("who comes then is served within {took:?}");
    crowd.dismiss();
    sound(&crowd.parsed_history());
    // The server keeps a queue that nobody asks about for 15 s.
    scene.is_forgotten(0..scene.members.len(), &crowd, Duration::from_secs(15));
}

fn endures(scene: &Scene, fault: &MemberFault) {
    let mut crowd = scene.crowd(OUTAGE_LIMIT);
    crowd.wait_until_all_were_served_since(0);
    let mut dice = StdRng::seed_from_u64(17);
    let lasts = lasts(Duration::from_secs(3), Duration::from_secs(30));
    let begun = Instant::now();
    let (mut faults, mut in_flight) = (0, 0);
    let mut down = Vec::new();
    while begun.elapsed() < lasts {
        if matches!(fault.end, End::Never) && faults > 0 {
            thread::sleep(lasts.saturating_sub(begun.elapsed()));
            break;
        }
        thread::sleep(Duration::from_millis(150).mul_f64(dice.random()));
        down = struck(scene, fault, faults, &mut dice);
        in_flight += scene.in_flight(&down);
        crowd.fault(fault.name);
        down.iter().for_each(|member| (fault.begin)(&scene.members[*member]));
        faults += 1;
        crowd.wait_until_all_were_served_since(now());
        if let End::Mended(end) = fault.end {
            down.drain(..).for_each(|member| end(&scene.members[member]));
            crowd.healed();
            crowd.wait_until_all_were_served_since(now());
        }
        if scene.forgets() {
            scene.until_all_count(&down);
        }
    }
    let took = crowd.wait_until_all_were_served_since(now());
    println!(
        "{}: {faults} times, while {in_flight} calls were in flight; at the end all are served {took:?}",
        fault.name
    );
    crowd.dismiss();

    let parsed_history = crowd.parsed_history();
    report(fault.name, &crowd, &parsed_history);
    sound(&parsed_history);
    let gone = |member: &usize| matches!(fault.end, End::Never) && down.contains(member);
    scene.is_forgotten((0..scene.members.len()).filter(|member| !gone(member)), &crowd, TTL);
    no_gap_is_longer_than(&parsed_history, GAP + slack(&crowd));
    nobody_was_deceived(&parsed_history);
    assert!(in_flight >= if is_long() { faults } else { 1 }, "{in_flight} calls were in flight");
}

/// The members that fail; every other time including the first, whose queue everybody waits in.
fn struck(scene: &Scene, fault: &MemberFault, faults: usize, dice: &mut StdRng) -> Vec<usize> {
    let others: Vec<usize> = (1..scene.members.len()).collect();
    if faults.is_multiple_of(2) || fault.members > others.len() {
        let more = others.sample(dice, fault.members - 1).copied();
        return std::iter::once(0).chain(more).collect();
    }
    others.sample(dice, fault.members).copied().collect()
}
