//! Checks whether a member of a quorum votes, or abstains because it may have forgotten leases.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Fault, Finding, Severity, Stamp, StoreRole, Ttl, locked};
use redis::cmd;

use super::diagnosis_run::DiagnosisRun;
use super::facts::Facts;
use crate::reply::{text_of, time_of};
use crate::slot::MEMBER_KEY;

const ABOUT: &str = "quarantine";

/// In addition to the longest TTL: `scripts/member.lua` has the reason.
const MARGIN: Duration = Duration::from_secs(1);

impl DiagnosisRun<'_> {
    pub(super) async fn quarantine(&mut self, facts: &Facts) -> Result<(), Fault> {
        let StoreRole::Member { max_ttl } = self.setting.role else { return Ok(()) };
        let Some(run) = facts.text("run_id") else { return Ok(()) };
        *locked(&self.client.identity) = Some(Arc::from(run));
        if !self.client.quarantine {
            self.found(self.setting.note(ABOUT, "off (quarantine=no): it votes also after a restart"));
            return Ok(());
        }
        if self.client.shared.cluster.is_some() {
            let whole = max_ttl.duration() + MARGIN;
            let what = format!(
                "each slot is vouched for by itself: one that came from another node, or that this node was not asked for, abstains \
                 for {whole:?} at first"
            );
            self.found(self.setting.note(ABOUT, what));
            return Ok(());
        }
        let heard = self.ask(vec![cmd("GET").arg(MEMBER_KEY).take(), cmd("TIME")]).await?;
        let mut heard = heard.into_iter().map(Result::ok);
        // The check of permissions reports what may not be read.
        let (Some(Some(vouched)), Some(Some(time))) = (heard.next(), heard.next()) else { return Ok(()) };
        let Some(now) = time_of(&time) else { return Ok(()) };
        let finding = judge(&self.setting.at, max_ttl, run, text_of(&vouched).as_deref(), now);
        self.found(finding);
        Ok(())
    }
}

fn judge(at: &Arc<str>, max_ttl: Ttl, run: &str, vouched: Option<&str>, now: Stamp) -> Finding {
    let whole = max_ttl.duration() + MARGIN;
    let fields = vouched.map(|vouched| vouched.split_once(' ').unwrap_or((vouched, "")));
    let Some((_, since)) = fields.filter(|(by, _)| *by == run) else {
        let what =
            format!("from its first request on it abstains for {whole:?}, as it may have forgotten leases");
        return Finding::note(ABOUT, at, what);
    };
    let since = since.parse().ok().map(Stamp::from_micros);
    let left = since.map_or(Duration::ZERO, |since| now.saturating_until(since + whole));
    if left.is_zero() {
        return Finding::note(
            ABOUT,
            at,
            format_args!("it votes; after a restart it would abstain for {whole:?}"),
        );
    }
    let what = format!(
        "it abstains for {:.0} s more: it was restarted and may have forgotten leases",
        left.as_secs_f64()
    );
    let why = "until then it is as good as down: as many fewer of the others may fail";
    Finding::new(Severity::Warning, ABOUT, at, what, why)
        .advice("wait, and restart no other member meanwhile")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_abstaining_member_differs_from_a_voting_and_from_an_unused_one() {
        let max_ttl = Ttl::new(Duration::from_secs(60)).unwrap();
        let judged = |vouched, now| judge(&"h".into(), max_ttl, "ab", vouched, Stamp::from_micros(now));
        assert_eq!(judged(None, 0).severity, Severity::Note);
        assert!(judged(Some("cd 5"), 6).what.starts_with("from its first request"));
        assert!(judged(Some("ab"), 6).what.starts_with("it votes"));
        let abstains = judged(Some("ab 1000000"), 31_000_000);
        assert!(abstains.severity == Severity::Warning && abstains.what.contains("31 s more"), "{abstains}");
        assert_eq!(judged(Some("ab 1000000"), 62_000_000).severity, Severity::Note);
    }
}
