//! Measures the round trip, and compares the server's clock with ours.

use std::time::Duration;

use leasehold_core::{ClockSeen, Fault, Finding, Severity};
use redis::cmd;

use super::diagnosis_run::DiagnosisRun;
use crate::reply::time_of;

/// The median of this many round trips counts.
const TRIPS: usize = 5;

/// Clocks that are disciplined by NTP differ by less than this.
const APART: Duration = Duration::from_secs(1);

/// The call limit should allow four round trips, so that a slow moment does not cause a fault.
const SHARE: u32 = 4;

impl DiagnosisRun<'_> {
    pub(super) async fn times(&mut self) -> Result<(), Fault> {
        let runtime = &*self.client.runtime;
        let mut trips = Vec::new();
        let mut sharpest: Option<ClockSeen> = None;
        for _ in 0..TRIPS {
            let (sent, before) = (runtime.now(), runtime.since_epoch());
            let heard = self.ask(vec![cmd("TIME")]).await?.pop();
            let (heard_at, after) = (runtime.now(), runtime.since_epoch());
            trips.push(heard_at.saturating_since(sent));
            let Some(server) = heard.and_then(Result::ok).and_then(|value| time_of(&value)) else { continue };
            let doubt = after.saturating_sub(before) / 2;
            let ours = i64::try_from((before + doubt).as_micros()).unwrap_or(i64::MAX);
            let ahead = i64::try_from(server.as_micros()).unwrap_or(i64::MAX).saturating_sub(ours);
            if sharpest.as_ref().is_none_or(|sharpest| doubt < sharpest.doubt) {
                sharpest = Some(ClockSeen { at: self.setting.at.clone(), ahead, doubt });
            }
        }
        trips.sort_unstable();
        self.judge_trip(trips[TRIPS / 2]);
        if let Some(clock) = sharpest {
            self.found(judge_clock(&clock));
            self.brought.clocks.push(clock);
        }
        Ok(())
    }

    fn judge_trip(&mut self, trip: Duration) {
        let limit = self.client.call_limit;
        let finding = if trip > limit / SHARE {
            let what = format!("a round trip takes {}, and a call may take {limit:?}", shown(trip));
            let why = "a slow moment is a fault, after which renewals are tried again and locks may be lost";
            self.setting.finding(Severity::Warning, "round-trip", what, why).advice(format_args!(
                "lock nearer to the server, or allow more in the URL: ?call-limit={:?}",
                limit * 4
            ))
        } else {
            self.setting.note("round-trip", format_args!("{} (the middle one of {TRIPS})", shown(trip)))
        };
        self.found(finding);
    }
}

fn judge_clock(clock: &ClockSeen) -> Finding {
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
    let why = "fences are counted on from the server's clock, and `every` goes by it: if it is wrong, setting it right may repeat \
               a fence after a loss of the server's state, or shift a period";
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
            judge_clock(&ClockSeen { at: "h".into(), ahead, doubt: Duration::from_millis(doubt) })
        };
        assert_eq!(judged(-1_500_000, 0).severity, Severity::Warning);
        assert!(judged(-1_500_000, 0).what.contains("1.5 s behind"));
        assert_eq!(judged(1_500_000, 600).severity, Severity::Note);
        assert!(judged(2500, 0).what.contains("2.50 ms ahead"));
    }
}
