//! The diagnosis of members that differ.

use std::time::Duration;

use conformance::faulty::CallFate;
use leasehold_core::{AdminStore as _, ClockSeen, Diagnosis, Finding, Remedy, Severity, StoreRole};

use super::world::{MAX_TTL, SECOND, World};

const ALONE: StoreRole = StoreRole::Alone;

fn found<'a>(diagnosis: &'a Diagnosis, about: &str) -> Vec<&'a Finding> {
    diagnosis.findings.iter().filter(|finding| finding.about == about).collect()
}

/// The only finding about a subject: its severity and its text.
fn said<'a>(diagnosis: &'a Diagnosis, about: &str) -> (Severity, &'a str) {
    let [finding] = found(diagnosis, about)[..] else { panic!("{about}: {diagnosis:?}") };
    assert_eq!(&*finding.at, "quorum of memory:a, memory:b, memory:c, memory:d, memory:e");
    (finding.severity, &finding.what)
}

#[tokio::test(start_paused = true)]
async fn members_out_of_reach_are_warned_of_while_the_others_are_enough_and_it_is_said_how_many_more_may_fail()
 {
    let world = World::of(5);
    let full = Finding::new(Severity::Unsafe, "eviction", &"memory:a".into(), "it evicts", "a lock goes");
    world.members[0].says(|facts| facts.diagnosis.findings.push(full.clone()));
    world.members[1].on("diagnose", CallFate::Slow(20 * SECOND));
    for (silent, words) in [(0, "5 of 5 members answer: 2"), (1, "4 of 5 members answer: 1")] {
        world.members[5 - silent..].iter().for_each(|member| member.on("diagnose", CallFate::Hung));
        let (begun, diagnosis) = (world.passed(), world.quorum().diagnose(ALONE).await);
        let took = world.passed() - begun;
        assert_eq!(took, if silent == 0 { 20 * SECOND } else { 30 * SECOND });
        assert_eq!(said(&diagnosis, "majority"), (Severity::Note, &*format!("{words} more may fail")));
        assert_eq!(diagnosis.findings[0], full, "what a member says of itself stays as it is");
        let unreached = found(&diagnosis, "reach");
        assert_eq!(unreached.len(), silent);
        for finding in unreached {
            assert_eq!((finding.severity, &*finding.at), (Severity::Warning, "memory:e"));
            assert_eq!(finding.what, "not diagnosed within 30s");
            assert!(matches!(finding.remedy, Remedy::Advice(_)), "{finding:?}");
        }
        assert!(found(&diagnosis, "members").is_empty(), "an odd number, all of them different");
        let unseen = found(&diagnosis, "quarantine");
        assert_eq!(unseen.len(), 5 - silent, "of each that answers");
        assert!(unseen.iter().all(|note| note.severity == Severity::Note && note.what.contains("21s")));
        let max_ttl = said(&diagnosis, "max-ttl");
        assert!(max_ttl.0 == Severity::Note && max_ttl.1.starts_with("20s: it must be the same"));
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_majority_a_diagnosis_says_that_no_lock_can_be_taken_and_whom_to_bring_back() {
    let world = World::of(5);
    // A silent member and one that reports that its server cannot be reached give the same finding.
    let reach = Finding::new(Severity::Unsafe, "reach", &"memory:a".into(), "connection refused", "no vote");
    world.members[0].says(|facts| facts.diagnosis.findings.push(reach));
    world.members[1].on("diagnose", CallFate::Hung);
    let enough = world.quorum().diagnose(ALONE).await;
    let words = "3 of 5 members answer: 0 more may fail";
    assert_eq!(said(&enough, "majority"), (Severity::Note, words));
    assert!(found(&enough, "reach").iter().all(|finding| finding.severity == Severity::Warning));

    world.members[2].on("diagnose", CallFate::Hung);
    let too_few = world.quorum().diagnose(ALONE).await;
    let words = "2 of 5 members answer, and 3 are needed";
    assert_eq!(said(&too_few, "majority"), (Severity::Unsafe, words));
    let unreached = found(&too_few, "reach");
    let whom: Vec<_> = unreached.iter().map(|finding| &*finding.at).collect();
    assert_eq!(whom, ["memory:a", "memory:b", "memory:c"]);
    assert!(unreached.iter().all(|finding| finding.severity == Severity::Unsafe));
}

#[tokio::test(start_paused = true)]
async fn a_diagnosis_names_an_even_number_and_one_server_under_two_names() {
    let world = World::of(4);
    let diagnosis = world.quorum().diagnose(ALONE).await;
    let [even] = found(&diagnosis, "members")[..] else { panic!("{diagnosis:?}") };
    assert_eq!(even.severity, Severity::Warning);
    assert_eq!(even.what, "4 stores survive the loss of 1, as 3 would");
    world.members.iter().zip(["w", "x", "y", "x"]).for_each(|(member, identity)| {
        member.says(|facts| facts.identity = Some(identity));
    });
    let diagnosis = world.quorum().diagnose(ALONE).await;
    let [_, twice] = found(&diagnosis, "members")[..] else { panic!("{diagnosis:?}") };
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
            facts.diagnosis.clocks = vec![ClockSeen { at, ahead, doubt: Duration::ZERO }];
        });
    };
    set(1, Duration::ZERO);
    assert!(found(&world.quorum().diagnose(ALONE).await, "clocks").is_empty(), "one clock is not compared");
    let moment = Duration::from_micros(1);
    // Members whose clocks differ by more than the longest TTL less 3 s may repeat a fence.
    for (ahead, severity) in [
        (SECOND - moment, Severity::Note),
        (SECOND, Severity::Warning),
        (MAX_TTL - 3 * SECOND, Severity::Warning),
        (MAX_TTL - 3 * SECOND + moment, Severity::Unsafe),
    ] {
        set(3, ahead);
        let diagnosis = world.quorum().diagnose(ALONE).await;
        assert_eq!(said(&diagnosis, "clocks").0, severity, "{ahead:?} apart");
        assert_eq!(diagnosis.clocks.len(), 2);
    }
}
