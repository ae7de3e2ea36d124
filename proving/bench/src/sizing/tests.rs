use super::*;
use crate::backend::Backend;
use crate::figure::{Figures, Of, Telling};

/// All figures that the page needs; the last one is of a renewal at a member.
fn figures() -> Vec<Figure> {
    let mut figures = Figures::new(Telling::Table);
    let of = Of { workload: "capacity", backend: Backend::named("valkey-9.1").unwrap(), case: "" };
    for (measure, value) in [
        ("server memory per held lock", 400.0),
        ("server memory per waiter", 300.0),
        ("server processor per pair, alone", 20.0),
        ("server processor per pair, together", 8.0),
        ("server processor per renewal, alone", 10.0),
        ("server processor per renewal, together", 3.0),
        ("server processor per hand-off", 30.0),
        ("bytes received per pair", 400.0),
        ("bytes sent per pair", 200.0),
        ("bytes per renewal", 300.0),
        ("server processor per pair of a majority, each member", 25.0),
        ("server processor per renewal of a majority, each member", 14.0),
    ] {
        figures.add(of, measure, "", value);
    }
    figures.all().to_vec()
}

fn costs() -> Costs {
    Costs::of("valkey-9.1", &figures()).unwrap()
}

#[test]
fn a_cluster_holds_more_and_a_quorum_does_not() {
    let [one, three, six, five] = LAYOUTS.map(|layout| layout.limits(&costs())[0]);
    assert_eq!(one, (700_000.0, "processor"));
    // Within the rounding error of floating-point numbers.
    assert!((three.0 / one.0 - 3.0).abs() < 1e-9 && (six.0 / one.0 - 6.0).abs() < 1e-9);
    assert!(five.0 < one.0, "a member does more for each lock than a server alone");
}

#[test]
fn the_scarcest_resource_limits_first() {
    let one = LAYOUTS[0];
    let fat = Costs { held: 100_000.0, ..costs() };
    assert_eq!(one.limits(&fat)[0].1, "memory");
    let wordy = Costs { renewal_bytes: 1e5, ..costs() };
    assert_eq!(one.limits(&wordy)[0].1, "network");
}

#[test]
fn a_page_wants_all_that_it_reckons_with() {
    let machine = Machine { processor: "Abacus 9000".into(), threads: 2, kernel: "6.1".into() };
    let figures = figures();
    assert_eq!(page(&figures[..figures.len() - 1], &machine), None);
    let page = page(&figures, &machine).unwrap();
    for part in [
        "Abacus 9000, 2 threads, Linux 6.1",
        "| memory of a held lock, its fence included | 400 B |",
        "| pairs a second | 35 k | 105 k | 210 k | 28 k |",
        "| renewals a second | 70 k | 210 k | 420 k | 50 k |",
        "| locks kept at a ttl of 30 s | 700 k | 2.1 M | 4.2 M | 500 k |",
        "| what breaks first | processor | processor | processor | processor |",
        "| 0.1 ms | 7.7 k |",
    ] {
        assert!(page.contains(part), "{part:?} is missing in:\n{page}");
    }
}
