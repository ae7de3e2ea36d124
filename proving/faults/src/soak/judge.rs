//! The invariants of a history in which a store may have forgotten something.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::{
    broken::{Breaks, Broken},
    circumstances::{CLOCKS, Circumstances, nanos},
    fault::Fault,
    workload::{EVERY, ONCE, PERIOD, TWO, UNEXPECTED},
};
use crate::{
    ParsedHistory, RequestSpan,
    history::{Entry, EventKind},
    wish::{Wanted, can_be_together, is_over_full},
};

#[derive(Clone, Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) violations: Vec<String>,
    /// The number of guards that were valid next to others because a store had forgotten them.
    pub(crate) excused: usize,
    pub(crate) broken: Broken,
    /// The longest time that a wanted key was free while the store was up.
    pub(crate) longest_gap: Duration,
    pub(crate) longest_wait: Duration,
}

/// The violations in the history of processes that suffered nothing: two holds of one key with one
/// fence, and everything that is a violation in a soak test.
#[must_use]
pub fn violations_without_faults(history: &[Entry], ttl: Duration, longest_gap: Duration) -> Vec<String> {
    let parsed_history = ParsedHistory::of(history);
    let mut violations =
        Circumstances::without_faults(ttl, longest_gap).judge(history, &parsed_history).violations;
    let mut highest = BTreeMap::<&str, &RequestSpan>::new();
    let mut seen = BTreeSet::new();
    for span in parsed_history.beliefs() {
        for key in span.keys() {
            if !seen.insert((key, span.fence())) {
                violations.push(format!("the fence of another at {key}:\n  {span}"));
            }
            let before = highest.entry(key).or_insert(span);
            if span.mode() == Wanted::Alone && span.fence() < before.fence() {
                violations.push(format!("a fence does not rise at {key}:\n  {before}\n  {span}"));
            }
            if span.fence() > before.fence() {
                *before = span;
            }
        }
    }
    violations
}

impl Circumstances {
    /// Those of a run in which nothing fails.
    fn without_faults(ttl: Duration, longest_gap: Duration) -> Self {
        Self { ttl, told_within: Duration::from_secs(1), longest_gap, ..Self::default() }
    }

    pub(crate) fn judge(&self, history: &[Entry], parsed_history: &ParsedHistory) -> Verdict {
        let mut verdict = Verdict::default();
        let beliefs = parsed_history.beliefs();
        let mut by_key = BTreeMap::<&str, Vec<&RequestSpan>>::new();
        for span in &beliefs {
            for key in span.keys() {
                by_key.entry(key).or_default().push(span);
            }
        }
        let mut breaks = Breaks::of(history);
        if self.is_quorum {
            breaks = breaks.at_members(&by_key);
        }
        for (key, spans) in &by_key {
            self.nobody_is_there_at_once(key, spans, &breaks, &mut verdict);
            self.fences_rise(key, spans, &breaks, &mut verdict);
            if *key == EVERY || key.starts_with(ONCE) {
                self.is_not_done_again(key, spans, &breaks, &mut verdict);
            }
        }
        self.it_goes_on(&beliefs, &breaks, &mut verdict);
        self.nobody_was_deceived(parsed_history, &breaks, &mut verdict);
        verdict.broken = breaks.judge(self, parsed_history, &by_key, &mut verdict.violations);
        for entry in history {
            if let EventKind::Failed(why) = &entry.what
                && why.starts_with(UNEXPECTED)
            {
                verdict.violations.push(format!("an answer that no fault explains: {entry}"));
            }
        }
        let waits = beliefs.iter().map(|span| span.begins().saturating_sub(span.asks));
        verdict.longest_wait = Duration::from_nanos(waits.max().unwrap_or(0));
        verdict
    }

    fn nobody_is_there_at_once(
        &self,
        key: &str,
        spans: &[&RequestSpan],
        breaks: &Breaks,
        verdict: &mut Verdict,
    ) {
        let mut inside: Vec<&RequestSpan> = Vec::new();
        let mut excused = BTreeSet::new();
        for span in spans {
            inside.retain(|other| other.believed_until > span.begins());
            // A broken lease is relied on until its holder is notified; that is checked elsewhere.
            if breaks.may_have_ended(span, key, span.begins()) {
                continue;
            }
            inside.retain(|other| !breaks.may_have_ended(other, key, span.begins()));
            // The later guard may be the forgotten one, notified late of its grant.
            let late = self.was_forgotten(&self.forgotten, span, span.begins());
            let (forgotten, known): (Vec<&RequestSpan>, Vec<_>) = inside
                .iter()
                .copied()
                .partition(|other| late || self.was_forgotten(&self.forgotten, other, span.begins()));
            let beside = |others: &[&RequestSpan]| {
                let mode = span.mode();
                let rival = others.iter().find(|other| !can_be_together(other.mode(), mode));
                let full = is_over_full(others.iter().map(|other| other.mode()), mode);
                rival.or_else(|| others.iter().find(|_| full)).map(|rival| (*rival).clone())
            };
            if let Some(rival) = beside(&known) {
                verdict.violations.push(format!("too many at once at {key}:\n  {rival}\n  {span}"));
            } else if let Some(rival) = beside(&forgotten) {
                let rival = if late { (*span).clone() } else { rival };
                excused.insert((rival.process, rival.task, rival.asks));
            }
            inside.push(span);
        }
        verdict.excused += excused.len();
    }

    /// True if a store forgot this guard before `at`, and its holder could not know. A lease granted or
    /// renewed since ends later: a store does not renew what it forgot.
    fn was_forgotten(&self, faults: &[Fault], span: &RequestSpan, at: u64) -> bool {
        let ttl = nanos(self.ttl + CLOCKS);
        faults
            .iter()
            .any(|fault| span.asks <= fault.until && fault.from <= at && span.ends <= fault.until + ttl)
    }

    /// A request sent after another's grant gets a greater fence. So do two guards of which one is
    /// exclusive, in the order of their holders' knowledge, unless something was forgotten or broken.
    fn fences_rise(&self, key: &str, spans: &[&RequestSpan], breaks: &Breaks, verdict: &mut Verdict) {
        let mut asking: Vec<&RequestSpan> = spans.to_vec();
        asking.sort_by_key(|span| span.asks);
        let mut had = spans.iter().peekable();
        let (mut highest, mut highest_alone): (Option<&RequestSpan>, Option<&RequestSpan>) = (None, None);
        for span in asking {
            while let Some(before) = had.next_if(|before| before.begins() <= span.asks) {
                raise(&mut highest, before);
                if before.mode() != Wanted::Read {
                    raise(&mut highest_alone, before);
                }
            }
            let reads_along = self.is_quorum && span.mode() == Wanted::Read;
            if let Some(before) = if reads_along { highest_alone } else { highest }
                && span.fence() <= before.fence()
            {
                verdict.violations.push(format!("a fence does not rise at {key}:\n  {before}\n  {span}"));
            }
        }
        for pair in spans.windows(2) {
            let [before, span] = [pair[0], pair[1]];
            let alone = [before, span].iter().any(|span| span.mode() == Wanted::Alone);
            let first = before.asks.min(span.asks);
            let told_late =
                self.forgot_between(first, span.begins()) || breaks.may_have_ended(span, key, span.begins());
            if alone && span.fence() <= before.fence() && !told_late {
                verdict.violations.push(format!("a fence does not rise at {key}:\n  {before}\n  {span}"));
            }
        }
    }

    /// A marked job is not begun again: never, or not within the period. But a process whose lease was
    /// broken may have looked before, and begin after the next one has done it.
    fn is_not_done_again(&self, key: &str, spans: &[&RequestSpan], breaks: &Breaks, verdict: &mut Verdict) {
        for pair in spans.windows(2) {
            let [first, second] = [pair[0], pair[1]];
            let Some(done) = first.done.filter(|done| *done < second.begins()) else { continue };
            let between = |fault: &Fault| first.asks <= fault.until && fault.from <= second.begins();
            if self.forgotten_somewhere.iter().any(between) || breaks.may_have_ended(second, key, done) {
                continue;
            }
            if key != EVERY || second.begins() + nanos(CLOCKS) < first.asks + nanos(PERIOD) {
                let ago = Duration::from_nanos(second.begins() - done);
                verdict.violations.push(format!("{key}: done again {ago:?} later:\n  {first}\n  {second}"));
            }
        }
    }

    /// No lock is free for long while somebody wants it. Locks that are acquired together count as
    /// one: a request for both delays later requests for one of them.
    fn it_goes_on(&self, beliefs: &[&RequestSpan], breaks: &Breaks, verdict: &mut Verdict) {
        let mut covered = BTreeMap::<&str, &RequestSpan>::new();
        for span in beliefs {
            let key = span.keys().next().unwrap_or_default();
            if key == EVERY || key.starts_with(ONCE) {
                continue;
            }
            let key = if TWO.contains(&key) { TWO[0] } else { key };
            if let Some(before) = covered.get(key) {
                let (from, until) = (breaks.kept_out_until(before).max(span.asks), span.begins());
                let gap =
                    Duration::from_nanos(until.saturating_sub(from).saturating_sub(self.down(from, until)));
                verdict.longest_gap = verdict.longest_gap.max(gap);
                if gap > self.longest_gap {
                    verdict.violations.push(format!(
                        "{key} was free for {gap:?} although somebody wanted it and the store was there:\n  {before}\n  {span}"
                    ));
                }
            }
            if covered
                .get(key)
                .is_none_or(|before| breaks.kept_out_until(before) < breaks.kept_out_until(span))
            {
                covered.insert(key, span);
            }
        }
    }

    /// How much of this period the store was down.
    fn down(&self, from: u64, until: u64) -> u64 {
        let within = |fault: &Fault| fault.until.min(until).saturating_sub(fault.from.max(from));
        self.down.iter().map(within).sum()
    }

    /// If a holder relied on its guard to the end and then learned that it had been wrong, one of
    /// these is true: its store forgot before that, a member of its majority forgot, or its lease
    /// was broken and it had not been notified yet.
    fn nobody_was_deceived(&self, parsed_history: &ParsedHistory, breaks: &Breaks, verdict: &mut Verdict) {
        for span in &parsed_history.spans {
            if let Some((at, how)) = &span.deceived
                && !self.was_forgotten(&self.forgotten_somewhere, span, *at)
                && !breaks.may_have_broken(span)
            {
                verdict.violations.push(format!("it believed, and its store did not: {how}\n  {span}"));
            }
        }
    }
}

fn raise<'a>(highest: &mut Option<&'a RequestSpan>, span: &'a RequestSpan) {
    if highest.is_none_or(|before| before.fence() < span.fence()) {
        *highest = Some(span);
    }
}

#[cfg(test)]
mod tests;
