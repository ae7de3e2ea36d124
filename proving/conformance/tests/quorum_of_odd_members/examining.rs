//! What an examination says of members that differ.

use std::time::Duration;

use conformance::faulty::Weather;
use leasehold_core::{AdminStore as _, ClockSeen, Examination, Finding, Remedy, Seat, Severity};

use crate::world::{MAX_TTL, SECOND, World};

const ALONE: Seat = Seat::Alone;

fn found<'a>(examination: &'a Examination, about: &str) -> Vec<&'a Finding> {
    examination.findings.iter().filter(|finding| finding.about == about).collect()
}

/// The only finding about something: how bad it is, and what it says.
fn said<'a>(examination: &'a Examination, about: &str) -> (Severity, &'a str) {
    let [finding] = found(examination, about)[..] else { panic!("{about}: {examination:?}") };
    assert_eq!(&*finding.at, "quorum of memory:a, memory:b, memory:c, memory:d, memory:e");
    (finding.severity, &finding.what)
}

#[tokio::test(start_paused = true)]
async fn members_out_of_reach_are_warned_of_while_the_others_are_enough_and_it_is_said_how_many_more_may_fail()
 {
    let world = World::of(5);
    let full = Finding::new(Severity::Unsafe, "eviction", &"memory:a".into(), "it evicts", "a lock goes");
    world.members[0].says(|facts| facts.examination.findings.push(full.clone()));
    world.members[1].on("examine", Weather::Slow(20 * SECOND));
    for (silent, words) in [(0, "5 of 5 members answer: 2"), (1, "4 of 5 members answer: 1")] {
        world.members[5 - silent..].iter().for_each(|member| member.on("examine", Weather::Hung));
        let (begun, examination) = (world.passed(), world.quorum().examine(ALONE).await);
        let took = world.passed() - begun;
        assert_eq!(took, if silent == 0 { 20 * SECOND } else { 30 * SECOND });
        assert_eq!(said(&examination, "majority"), (Severity::Note, &*format!("{words} more may fail")));
        assert_eq!(examination.findings[0], full, "what a member says of itself stays as it is");
        let unreached = found(&examination, "reach");
        assert_eq!(unreached.len(), silent);
        for finding in unreached {
            assert_eq!((finding.severity, &*finding.at), (Severity::Warning, "memory:e"));
            assert_eq!(finding.what, "not examined within 30s");
            assert!(matches!(finding.remedy, Remedy::Advice(_)), "{finding:?}");
        }
        assert!(found(&examination, "members").is_empty(), "an odd number, all of them different");
        let max_ttl = said(&examination, "max-ttl");
        assert!(max_ttl.0 == Severity::Note && max_ttl.1.starts_with("20s: it must be the same"));
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_majority_an_examination_says_that_no_lock_can_be_taken_and_whom_to_bring_back() {
    let world = World::of(5);
    // Whether a member is silent or says itself that its server cannot be reached comes to the same.
    let reach = Finding::new(Severity::Unsafe, "reach", &"memory:a".into(), "connection refused", "no vote");
    world.members[0].says(|facts| facts.examination.findings.push(reach));
    world.members[1].on("examine", Weather::Hung);
    let enough = world.quorum().examine(ALONE).await;
    let words = "3 of 5 members answer: 0 more may fail";
    assert_eq!(said(&enough, "majority"), (Severity::Note, words));
    assert!(found(&enough, "reach").iter().all(|finding| finding.severity == Severity::Warning));

    world.members[2].on("examine", Weather::Hung);
    let too_few = world.quorum().examine(ALONE).await;
    let words = "2 of 5 members answer, and 3 are needed";
    assert_eq!(said(&too_few, "majority"), (Severity::Unsafe, words));
    let unreached = found(&too_few, "reach");
    let whom: Vec<_> = unreached.iter().map(|finding| &*finding.at).collect();
    assert_eq!(whom, ["memory:a", "memory:b", "memory:c"]);
    assert!(unreached.iter().all(|finding| finding.severity == Severity::Unsafe));
}

#[tokio::test(start_paused = true)]
async fn an_examination_tells_of_an_even_number_and_of_one_server_under_two_names() {
    let world = World::of(4);
    let examination = world.quorum().examine(ALONE).await;
    let [even] = found(&examination, "members")[..] else { panic!("{examination:?}") };
    assert_eq!(even.severity, Severity::Warning);
    assert_eq!(even.what, "4 stores survive the loss of 1, as 3 would");
    world.members.iter().zip(["w", "x", "y", "x"]).for_each(|(member, identity)| {
        member.says(|facts| facts.identity = Some(identity));
    });
    let examination = world.quorum().examine(ALONE).await;
    let [_, twice] = found(&examination, "members")[..] else { panic!("{examination:?}") };
    assert_eq!(twice.severity, Severity::Unsafe);
    assert!(twice.what.starts_with("memory:b and memory:d are one server"), "{twice}");
}

#[tokio::test(start_paused = true)]
async fn the_members_clocks_are_compared_and_those_that_may_be_apart_and_those_that_may_not() {
    let world = World::of(5);
    let set = |member: usize, ahead: Duration| {
        world.members[member].says(|facts| {
            let ahead = i64::try_from(ahead.as_micros()).unwrap();
            let at = format!("server {member}").into();
            facts.examination.clocks = vec![ClockSeen { at, ahead, doubt: Duration::ZERO }];
        });
    };
    set(1, Duration::ZERO);
    assert!(found(&world.quorum().examine(ALONE).await, "clocks").is_empty(), "one clock is not compared");
    let moment = Duration::from_micros(1);
    // Members that stand further apart than the longest ttl less 5 s may repeat a fence.
    for (ahead, severity) in [
        (SECOND - moment, Severity::Note),
        (SECOND, Severity::Warning),
        (MAX_TTL - 5 * SECOND, Severity::Warning),
        (MAX_TTL - 5 * SECOND + moment, Severity::Unsafe),
    ] {
        set(3, ahead);
        let examination = world.quorum().examine(ALONE).await;
        assert_eq!(said(&examination, "clocks").0, severity, "{ahead:?} apart");
        assert_eq!(examination.clocks.len(), 2);
    }
}
