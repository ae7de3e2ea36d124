use super::{super::fault::Kind, *};

mod breaks;

const NONE: [Fault; 0] = [];

fn circumstances(forgotten: &[Fault]) -> Circumstances {
    let down: Vec<_> = forgotten.iter().copied().filter(|fault| fault.kind.is_outage()).collect();
    Circumstances {
        forgotten: forgotten.to_vec(),
        forgotten_somewhere: forgotten.to_vec(),
        down,
        faults: forgotten.to_vec(),
        ..Circumstances::without_faults(Duration::from_secs(2), Duration::from_secs(5))
    }
}

/// The verdict on a history whose times are in milliseconds.
fn judged(circumstances: &Circumstances, lines: &[&str]) -> Verdict {
    let history: Vec<Entry> = lines
        .iter()
        .map(|line| {
            let mut entry: Entry = line.parse().unwrap();
            entry.at *= 1_000_000;
            match &mut entry.what {
                EventKind::Granted { until, .. } | EventKind::Renewed { until } => *until *= 1_000_000,
                _ => {}
            }
            entry
        })
        .collect();
    circumstances.judge(&history, &ParsedHistory::of(&history))
}

fn violations(lines: &[&str]) -> Vec<String> {
    judged(&circumstances(&NONE), lines).violations
}

/// Two holders of a key, one from 10 to 100 and the other from 50 to 150.
fn at_once(one: &str, other: &str) -> Vec<String> {
    let asks = [format!("1 1 1 asks {one}"), format!("20 2 1 asks {other}")];
    let lines = [
        &asks[0],
        "10 1 1 granted 7 2000",
        &asks[1],
        "50 2 1 granted 8 2000",
        "100 1 1 lets-go true",
        "101 1 1 released",
        "150 2 1 lets-go true",
        "151 2 1 released",
    ];
    violations(&lines)
}

#[test]
fn only_incompatible_holders_are_reported() {
    for (one, other) in [("alone a", "alone b"), ("read a", "read a"), ("permits 2/5 a", "permits 3/5 a")] {
        assert_eq!(at_once(one, other), [""; 0]);
    }
    for (one, other) in [
        ("alone a", "alone a"),
        ("alone a,b", "alone b"),
        ("read a", "alone a"),
        ("alone a", "read a"),
        ("read a", "permits 1/2 a"),
        ("permits 3/5 a", "permits 3/5 a"),
        ("permits 1/5 a", "permits 1/4 a"),
    ] {
        assert_eq!(at_once(one, other).len(), 1, "{one} {other}");
    }
}

#[test]
fn a_holder_that_was_forgotten_is_excused_for_as_long_as_its_lease_and_no_longer() {
    let lines = |until: &'static str| {
        [
            "1 1 1 asks alone a",
            "10 1 1 granted 7 1900",
            "60 2 1 asks alone a",
            "70 2 1 granted 8 2070",
            until,
            "80 2 1 lets-go true",
            "81 2 1 released",
        ]
    };
    let at = |from: u64, until: u64| {
        let (from, until) = (from * 1_000_000, until * 1_000_000);
        circumstances(&[Fault { kind: Kind::Flushed, from, until }])
    };
    let verdict = judged(&at(50, 51), &lines("71 1 1 renewed 2040"));
    assert_eq!((verdict.violations.len(), verdict.excused), (0, 1));
    // Renewed by a store that had forgotten it, although it is released early.
    assert_eq!(judged(&at(50, 51), &lines("71 1 1 renewed 2900")).violations.len(), 1);
    let early = [
        "1 1 1 asks alone a",
        "10 1 1 granted 7 2900",
        "60 2 1 asks alone a",
        "70 2 1 granted 8 2070",
        "75 1 1 lets-go true",
    ];
    assert_eq!(judged(&at(50, 51), &early).violations.len(), 1);
    // Forgotten before it asked, and after the other was granted it.
    assert_eq!(judged(&at(0, 0), &lines("71 1 1 renewed 2040")).violations.len(), 1);
    assert_eq!(judged(&at(75, 76), &lines("71 1 1 renewed 2040")).violations.len(), 1);
}

#[test]
fn a_fence_that_repeats_or_falls_is_found_if_nothing_failed() {
    let count = |modes: [(&str, u64); 3]| {
        let lines = (1..).zip(modes).flat_map(|(task, (mode, fence))| {
            let [asks, at] = [task, 10 * task];
            [
                format!("{asks} 1 {task} asks {mode} a"),
                format!("{at} 1 {task} granted {fence} {}", at + 5),
                format!("{} 1 {task} lets-go true", at + 1),
                format!("{} 1 {task} released", at + 2),
            ]
        });
        let mut history: Vec<Entry> = lines.map(|line| line.parse().unwrap()).collect();
        history.sort_by_key(|entry| entry.at);
        violations_without_faults(&history, Duration::from_secs(2), Duration::from_secs(5)).len()
    };
    assert_eq!(count([("alone", 1), ("read", 3), ("read", 2)]), 0);
    assert_eq!(count([("read", 2), ("read", 2), ("read", 3)]), 1);
    assert_eq!(count([("read", 5), ("read", 3), ("alone", 4)]), 1);
}

/// A process stopped when it was handed the lock, the server was flushed, and another was granted it.
/// The stopped process's guard began later, with the lower fence.
#[test]
fn a_holder_that_was_forgotten_before_its_grant_arrived_is_excused_too() {
    let lines = [
        "1 1 1 asks alone a",
        "60 2 1 asks alone a",
        "70 2 1 granted 8 2070",
        "80 1 1 granted 7 1900",
        "82 1 1 lets-go true",
        "90 2 1 lets-go true",
    ];
    let flushed = Fault { kind: Kind::Flushed, from: 50_000_000, until: 51_000_000 };
    let verdict = judged(&circumstances(&[flushed]), &lines);
    assert_eq!((verdict.violations.len(), verdict.excused), (0, 1), "{verdict:?}");
    assert!(!violations(&lines).is_empty());
}

/// A release in a stopped server's socket was read only after the server had been flushed.
#[test]
fn a_holder_that_releases_a_forgotten_lease_before_the_store_sees_it_is_excused() {
    let lines = [
        "1 1 1 asks alone a",
        "10 1 1 granted 7 1900",
        "100 1 1 lets-go true",
        "200 1 1 lost a: taken by another holder before it was released: held by 2",
    ];
    let flushed_at = |at: u64| {
        let at = at * 1_000_000;
        circumstances(&[Fault { kind: Kind::Flushed, from: at, until: at }])
    };
    assert_eq!(judged(&flushed_at(150), &lines).violations, [""; 0]);
    assert_eq!(judged(&flushed_at(201), &lines).violations.len(), 1);
    assert_eq!(violations(&lines).len(), 1);
}

#[test]
fn a_fence_that_does_not_rise_is_found_also_where_a_store_forgot() {
    let lines = [
        "1 1 1 asks read a",
        "10 1 1 granted 9 2000",
        "20 1 1 lets-go true",
        "21 1 1 released",
        "30 2 1 asks alone a",
        "40 2 1 granted 9 2000",
        "50 2 1 lets-go true",
        "51 2 1 released",
    ];
    assert!(!violations(&lines).is_empty());
    let flushed = Fault { kind: Kind::Flushed, from: 25_000_000, until: 26_000_000 };
    assert_eq!(judged(&circumstances(&[flushed]), &lines).violations.len(), 1);
}

#[test]
fn readers_of_a_quorum_may_share_a_fence_and_a_writer_none() {
    let lines = |mode: &str| {
        let asks = format!("15 2 1 asks {mode} a");
        let lines = ["1 1 1 asks read a", "10 1 1 granted 9 40", &asks, "50 2 1 granted 9 2000"];
        let in_a_quorum = Circumstances { is_quorum: true, ..circumstances(&NONE) };
        judged(&in_a_quorum, &lines).violations.len()
    };
    assert_eq!(lines("read"), 0);
    assert_ne!(lines("alone"), 0);
}

#[test]
fn a_lock_that_stays_free_is_found_but_not_while_its_store_is_down() {
    let lines = [
        "1 1 1 asks alone a",
        "10 1 1 granted 7 2000",
        "15 2 1 asks alone a",
        "20 1 1 lets-go true",
        "21 1 1 released",
        "5100 2 1 granted 8 9000",
        "5110 2 1 lets-go true",
        "5111 2 1 released",
    ];
    assert_eq!(violations(&lines).len(), 1);
    let stopped = Fault { kind: Kind::Stopped, from: 30_000_000, until: 1_030_000_000 };
    let verdict = judged(&circumstances(&[stopped]), &lines);
    assert_eq!((verdict.violations.len(), verdict.longest_gap), (0, Duration::from_millis(4080)));
}

#[test]
fn a_finished_job_is_not_done_again() {
    let lines = |key: &str, again: u64| {
        let asks = [format!("1 1 1 asks alone {key}"), format!("{} 2 1 asks alone {key}", again - 1)];
        let granted = format!("{again} 2 1 granted 8 {}", again + 2000);
        let first = ["10 1 1 granted 7 2000", "15 1 1 done", "20 1 1 lets-go true", "21 1 1 released"];
        violations(&[&[&*asks[0]], &first[..], &[&asks[1], &granted]].concat()).len()
    };
    assert_eq!((lines("once:1", 5000), lines("every", 500), lines("every", 1100)), (1, 1, 0));
    assert_eq!(lines("doc", 500), 0);
}

#[test]
fn wrong_notifications_and_odd_answers_are_found() {
    let lines =
        ["1 1 1 asks alone a", "10 1 1 granted 7 2000", "20 1 1 lets-go true", "21 1 1 lost not yours"];
    assert_eq!(violations(&lines).len(), 1);
    // A member forgot, and the majority was gone: nobody else had the lock, but the lease had ended.
    let mut quorum = circumstances(&NONE);
    quorum.forgotten_somewhere.push(Fault { kind: Kind::Flushed, from: 15_000_000, until: 16_000_000 });
    assert_eq!(judged(&quorum, &lines).violations, [""; 0]);
    assert_eq!(violations(&["1 1 1 asks alone a", "9 1 1 failed unexpected: a: no lock"]).len(), 1);
    assert_eq!(violations(&["1 1 1 asks alone a", "9 1 1 failed unreachable: a"]).len(), 0);
}
