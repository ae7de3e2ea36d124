//! Round trips to a server: how long they take, and how far its clock is from this machine's.

use std::sync::Arc;
use std::time::Duration;

use crate::{ClockSeen, Diagnosis, Finding, Instant, Runtime, Severity, Stamp};

/// Clocks that are disciplined by NTP differ by less than this.
const APART: Duration = Duration::from_secs(1);

/// The call limit should allow four round trips, so that a slow moment does not cause a fault.
const SHARE: u32 = 4;

/// Measures round trips in which a server gives its time.
#[derive(Debug)]
pub struct RoundTrips<'a> {
    at: &'a Arc<str>,
    runtime: &'a dyn Runtime,
    trips: Vec<Duration>,
    /// The clock as the fastest answer showed it.
    clock: Option<ClockSeen>,
}

/// When a round trip began: on the clock of leases, and on that of the machine.
#[derive(Clone, Copy, Debug)]
pub struct TripStart(Instant, Duration);

impl<'a> RoundTrips<'a> {
    /// The median of this many counts.
    pub const COUNT: usize = 5;

    /// For the server of this name; nothing is measured yet.
    pub fn to(at: &'a Arc<str>, runtime: &'a dyn Runtime) -> Self {
        Self { at, runtime, trips: Vec::new(), clock: None }
    }

    /// The server is asked now.
    #[must_use]
    pub fn asks(&self) -> TripStart {
        TripStart(self.runtime.now(), self.runtime.since_epoch())
    }

    /// It has answered, with its time if it gave one.
    pub fn hears(&mut self, TripStart(sent, before): TripStart, server: Option<Stamp>) {
        let (heard, after) = (self.runtime.now(), self.runtime.since_epoch());
        self.trips.push(heard.saturating_since(sent));
        let Some(server) = server else { return };
        let doubt = after.saturating_sub(before) / 2;
        let ours = i64::try_from((before + doubt).as_micros()).unwrap_or(i64::MAX);
        let ahead = i64::try_from(server.as_micros()).unwrap_or(i64::MAX).saturating_sub(ours);
        if self.clock.as_ref().is_none_or(|clock| doubt < clock.doubt) {
            self.clock = Some(ClockSeen { at: Arc::clone(self.at), ahead, doubt });
        }
    }

    /// Adds what they show to a diagnosis: whether a call has enough time, and whether the clock is
    /// right. `why` says what a wrong clock does to the locks of this server.
    pub fn tell(mut self, call_limit: Duration, why: &str, diagnosis: &mut Diagnosis) {
        self.trips.sort_unstable();
        let median = self.trips.get(self.trips.len() / 2);
        diagnosis.findings.extend(median.map(|trip| judge_trip(self.at, *trip, call_limit)));
        diagnosis.findings.extend(self.clock(why));
        diagnosis.clocks.extend(self.clock);
    }

    /// Whether the clock is right, if the server gave its time.
    #[must_use]
    pub fn clock(&self, why: &str) -> Option<Finding> {
        self.clock.as_ref().map(|clock| judge_clock(clock, why))
    }
}

fn judge_trip(at: &Arc<str>, trip: Duration, call_limit: Duration) -> Finding {
    let takes = shown(trip);
    if trip <= call_limit / SHARE {
        let what = format!("{takes} (the middle one of {})", RoundTrips::COUNT);
        return Finding::note("round-trip", at, what);
    }
    let what = format!("a round trip takes {takes}, and a call may take {call_limit:?}");
    let why = "a slow moment is a fault, after which renewals are tried again and locks may be lost";
    Finding::new(Severity::Warning, "round-trip", at, what, why).advice(format_args!(
        "lock nearer to the server, or allow more in the URL: ?call-limit={:?}",
        call_limit * 4
    ))
}

fn judge_clock(clock: &ClockSeen, why: &str) -> Finding {
    let apart = Duration::from_micros(clock.ahead.unsigned_abs());
    let which = if clock.ahead < 0 { "behind" } else { "ahead of" };
    let what = format!(
        "the server's clock is {} {which} this machine's, give or take {}",
        shown(apart),
        shown(clock.doubt)
    );
    if apart.saturating_sub(clock.doubt) < APART {
        return Finding::note("clock", &clock.at, what);
    }
    Finding::new(Severity::Warning, "clock", &clock.at, what, why)
        .advice("find out which of the two is wrong, and have it kept there: timedatectl set-ntp true")
}

fn shown(time: Duration) -> String {
    if time >= Duration::from_secs(1) {
        format!("{:.1} s", time.as_secs_f64())
    } else {
        format!("{:.2} ms", time.as_secs_f64() * 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_wrong_only_beyond_the_uncertainty_of_the_measurement() {
        let judged = |ahead, doubt| {
            judge_clock(&ClockSeen { at: "h".into(), ahead, doubt: Duration::from_millis(doubt) }, "")
        };
        assert_eq!(judged(-1_500_000, 0).severity, Severity::Warning);
        assert!(judged(-1_500_000, 0).what.contains("1.5 s behind"));
        assert_eq!(judged(1_500_000, 600).severity, Severity::Note);
        assert!(judged(2500, 0).what.contains("2.50 ms ahead"));
    }

    #[test]
    fn a_call_should_have_the_time_of_four_round_trips() {
        let judged = |trip| {
            let (at, limit) = ("h".into(), Duration::from_millis(500));
            judge_trip(&at, Duration::from_millis(trip), limit)
        };
        assert_eq!(judged(125).severity, Severity::Note);
        let slow = judged(126);
        assert_eq!(slow.severity, Severity::Warning);
        assert!(slow.what.contains("126.00 ms") && format!("{:?}", slow.remedy).contains("call-limit=2s"));
    }
}
