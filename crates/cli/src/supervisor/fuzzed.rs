//! Data that a broken peer may send through the supervisor's pipe, and orders in any sequence.

use fuzz::{bytes_near, holds, hunt};
use proptest::{collection::vec, prelude::*};
use rustix::process::Signal;

use super::ending::{Ending, Step};
use super::messages::{Order, SupervisorReport};

const RECORDS: [&[u8]; 10] = [
    b"E\x02\x01\0\0\0\0\0\0",
    b"L\0\0\0\0\0\0\0\0",
    b"K\0\0\0\0\0\0\0\0",
    b"T\0\0\0\0\0\0\0\0",
    b"C\x01\0\0\0\0\0\0\0",
    b"S\x0f\0\0\0\0\0\0\0",
    b"E\x8b\0\0\0\0",
    b"N\x02\0\0\0\x01",
    b"S\x01\0\0\0\x13",
    b"",
];

#[test]
fn a_record_reads_back_to_the_same_bytes_or_is_refused() {
    hunt(20_000, bytes_near(&RECORDS), |bytes| {
        let order = Order::parse(&bytes).map(Order::to_bytes);
        holds(order.is_none_or(|again| again[..] == bytes), || "an order is written in another way".into())?;
        let report = SupervisorReport::parse(&bytes);
        let again = report.and_then(|report| SupervisorReport::parse(&report.to_bytes()));
        holds(report == again, || format!("{report:?} is read as {again:?}"))
    });
}

/// Whatever orders come, in any sequence and at any time, the supervisor kills at the end of the
/// lease that it knows, and once it has begun to end the command, no order makes that later.
#[test]
fn a_command_never_outlives_the_end_of_the_lease_that_was_known_when_ending_it_began() {
    let time = || prop_oneof![6 => 0..2_000_u64, 1 => any::<u64>()];
    // None is the end of the connection.
    let event = prop_oneof![
        5 => time().prop_map(|end| Some(Order::End(end))),
        1 => Just(Some(Order::Lost)),
        1 => Just(Some(Order::Kill)),
        1 => Just(Some(Order::Stop)),
        1 => Just(Some(Order::Continue(1))),
        1 => Just(Some(Order::Suspend(0))),
        1 => Just(Some(Order::Signal(Signal::TERM))),
        1 => Just(None),
    ];
    let start = (time(), prop_oneof![6 => 0..300_u64, 1 => any::<u64>()]);
    hunt(10_000, (start, vec((event, 0..200_u64), 0..30)), |((end, grace), events)| {
        let mut ending = Ending::new(end, grace);
        let (mut now, mut believed, mut last) = (0, end, None);
        for (event, later) in events {
            now += later;
            match event {
                Some(order) => {
                    if let (Order::End(end), false) = (order, ending.is_forced()) {
                        believed = end;
                    }
                    ending.handle(now, order);
                }
                None => ending.handle_closed(),
            }
            let step = ending.next(now);
            holds(now < believed || step == Step::Kill, || format!("{step:?} at {now}, past {believed}"))?;
            match step {
                Step::Rest(until) => {
                    holds(until > now && until <= believed, || {
                        format!("rests until {until}, not {believed}")
                    })?;
                    let forced = ending.is_forced().then_some(until);
                    holds(last.is_none_or(|last| forced == Some(last)), || {
                        format!("{last:?} became {forced:?}")
                    })?;
                    last = forced;
                }
                Step::Ask => holds(ending.is_forced() && last.is_none(), || "asked for nothing".into())?,
                Step::Kill => last = last.or(Some(0)).map(|_| 0),
            }
            if matches!(event, None | Some(Order::Kill)) {
                holds(ending.next(now) == Step::Kill, || "it was to be killed at once".into())?;
            }
        }
        Ok(())
    });
}
