//! The possible consequences of breaking a lease.

use super::*;

/// Process 1 holds a key from 10 on, 3 breaks that lease at 30, and 2 holds the key from 40 on.
fn broken<'a>(next: &'a str, rest: &[&'a str]) -> Vec<&'a str> {
    let lines = [
        "1 1 1 asks alone a",
        "10 1 1 granted 7 2000",
        "20 2 1 asks alone a",
        "30 3 1 breaks 7 1 a",
        "31 3 1 broke",
        next,
    ];
    [&lines[..], rest].concat()
}

const NEXT: &str = "40 2 1 granted 8 2040";

#[test]
fn a_broken_holder_may_overlap_with_the_next_one_until_it_is_notified() {
    let heard = ["49 1 1 lets-go false", "50 1 1 lost broken"];
    let lines = broken(NEXT, &heard);
    let verdict = judged(&circumstances(&NONE), &lines);
    assert_eq!((verdict.violations.as_slice(), verdict.excused), (&[][..], 0));
    let Broken { leases, unanswered, told_after } = verdict.broken;
    assert_eq!((leases, unanswered, told_after), (1, 0, vec![Duration::from_millis(18)]));
    // Without the store's confirmation, it is unknown whether the lease was broken.
    let unsure: Vec<_> = lines.iter().copied().filter(|line| !line.ends_with("broke")).collect();
    let verdict = judged(&circumstances(&NONE), &unsure);
    assert_eq!((verdict.violations.as_slice(), verdict.broken.unanswered), (&[][..], 1));
    // The break was of another lease, key or holder, or of none.
    for (from, to) in [
        ("30 3 1 breaks 7 1 a", "30 3 1 breaks 6 1 a"),
        ("30 3 1 breaks 7 1 a", "30 3 1 breaks 7 1 b"),
        ("30 3 1 breaks 7 1 a", "30 3 1 breaks 7 4 a"),
        ("31 3 1 broke", "31 3 1 broke-nothing"),
    ] {
        let other: Vec<_> = lines.iter().map(|line| if *line == from { to } else { line }).collect();
        assert!(
            violations(&other).first().is_some_and(|one| one.starts_with("too many at once at a")),
            "{to}"
        );
    }
}

#[test]
fn a_grant_that_was_broken_before_its_answer_arrived_is_not_a_violation() {
    let lines = [
        "1 1 1 asks alone a",
        "20 2 1 asks alone a",
        "30 3 1 breaks 7 1 a",
        "31 3 1 broke",
        NEXT,
        "42 1 1 granted 7 2000",
        "45 1 1 lets-go true",
        "46 1 1 lost broken",
    ];
    assert_eq!(violations(&lines), [""; 0]);
}

#[test]
fn a_release_that_a_break_was_faster_than_deceived_nobody() {
    let lines = [
        "1 1 1 asks alone a",
        "10 1 1 granted 7 2000",
        "29 1 1 lets-go true",
        "30 3 1 breaks 7 1 a",
        "31 3 1 broke",
        "32 1 1 lost broken",
    ];
    assert_eq!(violations(&lines), [""; 0]);
}

/// A slow member gave the lease that fence after a majority had agreed on another.
#[test]
fn a_lease_in_a_quorum_may_be_broken_by_a_greater_fence_than_its_holder_has() {
    let lines = |named| {
        [
            "1 1 1 asks alone a",
            "10 1 1 granted 7 2000",
            "20 2 1 asks alone a",
            named,
            "31 3 1 broke",
            "40 2 1 granted 10 2040",
            "49 1 1 lets-go false",
            "50 1 1 lost broken",
        ]
    };
    let in_a_quorum = Circumstances { is_quorum: true, ..circumstances(&NONE) };
    assert_eq!(judged(&in_a_quorum, &lines("30 3 1 breaks 9 1 a")).violations, [""; 0]);
    for (circumstances, named) in
        [(&in_a_quorum, "30 3 1 breaks 6 1 a"), (&circumstances(&NONE), "30 3 1 breaks 9 1 a")]
    {
        assert_ne!(judged(circumstances, &lines(named)).violations.len(), 0, "{named}");
    }
}

#[test]
fn a_holder_that_is_notified_too_late_of_a_break_is_found() {
    let late = ["1040 1 1 lets-go false", "1041 1 1 lost broken"];
    assert_eq!(violations(&broken(NEXT, &late)).len(), 1);
    // The holder could not be notified.
    let stopped = ["41 1 0 stopped", "1030 1 0 continued", late[0], late[1]];
    assert_eq!(violations(&broken(NEXT, &stopped)), [""; 0]);
    // But a broken lease cannot be renewed.
    let renewed = ["41 1 0 stopped", "1030 1 0 continued", "1031 1 1 renewed 3000"];
    assert_eq!(violations(&broken(NEXT, &renewed)).len(), 1);
}

#[test]
fn a_fence_that_is_not_greater_than_what_was_broken_is_found() {
    let heard = ["49 1 1 lets-go false", "50 1 1 lost broken"];
    for fence in [6, 7] {
        let next = format!("40 2 1 granted {fence} 2040");
        assert_ne!(violations(&broken(&next, &heard)).len(), 0);
        // Also if nobody ever heard of the grant that was broken.
        let lines = ["20 2 1 asks alone a", "30 3 1 breaks 7 1 a", "31 3 1 broke", &next];
        assert_eq!(violations(&lines).len(), 1);
    }
    let lines = ["20 2 1 asks alone a", "30 3 1 breaks 7 1 a", "31 3 1 broke", NEXT];
    assert_eq!(violations(&lines), [""; 0]);
}

#[test]
fn broken_holders_that_were_not_notified_are_found() {
    let after = |millis: u64| {
        let lines: Vec<_> = (0..5)
            .flat_map(|n| {
                let (fence, at) = (n + 7, n * 1000);
                [
                    format!("{} 1 1 asks alone a", at + 1),
                    format!("{} 1 1 granted {fence} {}", at + 10, at + 2000),
                    format!("{} 3 1 breaks {fence} 1 a", at + 30),
                    format!("{} 3 1 broke", at + 31),
                    format!("{} 1 1 lets-go false", at + 31 + millis),
                    format!("{} 1 1 lost broken", at + 32 + millis),
                ]
            })
            .collect();
        violations(&lines.iter().map(String::as_str).collect::<Vec<_>>()).len()
    };
    assert_eq!((after(20), after(400)), (0, 1));
}

#[test]
fn a_lock_that_was_broken_and_stays_free_is_found_although_its_holder_believes() {
    let mut circumstances = circumstances(&NONE);
    circumstances.longest_gap = Duration::from_secs(1);
    let stopped = ["41 1 0 stopped"];
    let count = |next| judged(&circumstances, &broken(next, &stopped)).violations.len();
    assert_eq!((count("1500 2 1 granted 8 3500"), count("500 2 1 granted 8 2500")), (1, 0));
}

#[test]
fn a_job_whose_lease_was_broken_before_the_next_was_done_may_begin_after_it() {
    let lines = [
        "1 1 1 asks alone every",
        "20 2 1 asks alone every",
        "30 3 1 breaks 7 1 every",
        "31 3 1 broke",
        "40 2 1 granted 8 2040",
        "41 2 1 done",
        "41 2 1 lets-go true",
        "41 2 1 released",
        "42 1 1 granted 7 2000",
        "45 1 1 lets-go false",
        "46 1 1 lost broken",
    ];
    assert_eq!(violations(&lines), [""; 0]);
    // It was another lease, or it was broken only after that.
    let elsewhere = |line| if line == "30 3 1 breaks 7 1 every" { "30 3 1 breaks 6 1 every" } else { line };
    let later = |line| match line {
        "30 3 1 breaks 7 1 every" => "42 3 1 breaks 7 1 every",
        "31 3 1 broke" => "42 3 1 broke",
        line => line,
    };
    for other in [lines.map(elsewhere), lines.map(later)] {
        let mut other = other;
        other.sort_by_key(|line| line.split(' ').next().and_then(|at| at.parse::<u64>().ok()));
        let found = violations(&other);
        assert!(found.iter().any(|one| one.starts_with("every: done again")), "{found:?}");
    }
}
