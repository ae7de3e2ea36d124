//! The evaluation of a history: its totals, and its violations.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
    time::Duration,
};

use crate::{
    history::{Entry, EventKind},
    wish::{Wanted, Wish},
};

/// One request, from just before it was sent until it failed, or until its guard was released.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestSpan {
    pub process: u32,
    pub task: u32,
    /// The keys and the mode, if there is more than one lock.
    pub wish: Option<Wish>,
    /// Just before the request.
    pub asks: u64,
    /// When it first knew that it was queued.
    pub stands: Option<u64>,
    /// When it got a guard, and the fence.
    pub granted: Option<(u64, u64)>,
    /// The end of the belief in the guard: its own end, its release, or its process's death.
    pub believed_until: u64,
    /// When the store had confirmed the mark of its job.
    pub done: Option<u64>,
    /// When nothing more could come of it.
    pub over: u64,
    /// The end of its lease, as far as it was recorded.
    pub ends: u64,
    /// The time and text of the store's answer that it was not the holder, if it still considered
    /// itself the holder when it released, before the lease had ended.
    pub deceived: Option<(u64, String)>,
    /// True if it released knowing that it was no holder any more: notified, or by its lease's end.
    pub knew: bool,
}

impl fmt::Display for RequestSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{} asked", self.process, self.task)?;
        self.wish.as_ref().map_or(Ok(()), |wish| write!(f, " for {wish}"))?;
        write!(f, " at {}", Millis(self.asks))?;
        self.stands.map_or(Ok(()), |at| write!(f, ", stood at {}", Millis(at)))?;
        let Some((at, fence)) = self.granted else {
            return write!(f, ", in vain until {}", Millis(self.over));
        };
        write!(f, ", granted {fence} at {}, believed until {}", Millis(at), Millis(self.believed_until))
    }
}

/// The transition from one guard to the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handover {
    pub from: RequestSpan,
    pub to: RequestSpan,
    /// How long nobody held the lock although somebody wanted it.
    pub gap: Duration,
}

impl Handover {
    /// True if this time lies between the starts of the two guards.
    pub fn spans(&self, at: u64) -> bool {
        (self.from.begins()..=self.to.begins()).contains(&at)
    }
}

impl fmt::Display for Handover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} from {} to {}", self.gap, self.from, self.to)
    }
}

/// A process that was killed or stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessFault {
    pub process: u32,
    pub at: u64,
    /// When it continued; `None` if it was killed or not continued.
    pub until: Option<u64>,
    /// When the store then showed that it held the lock; it may have been handed it while it died.
    pub had_it: Option<u64>,
}

#[derive(Clone, Debug, Default)]
pub struct ParsedHistory {
    /// All requests, in the order in which they were made.
    pub spans: Vec<RequestSpan>,
    pub killed: Vec<ProcessFault>,
    pub stopped: Vec<ProcessFault>,
}

impl ParsedHistory {
    pub fn of(history: &[Entry]) -> Self {
        let mut parsed_history = Self::default();
        let mut open: HashMap<(u32, u32), RequestSpan> = HashMap::new();
        let mut last_heard: HashMap<u32, u64> = HashMap::new();
        for Entry { at, process, task, what } in history {
            let (at, process) = (*at, *process);
            let who = (process, *task);
            if *task > 0 {
                last_heard.insert(process, at);
            }
            match what {
                EventKind::Asks | EventKind::AsksFor(_) => {
                    let wish = if let EventKind::AsksFor(wish) = what { Some(wish.clone()) } else { None };
                    let asked = RequestSpan {
                        process,
                        task: *task,
                        wish,
                        asks: at,
                        believed_until: u64::MAX,
                        over: u64::MAX,
                        ends: u64::MAX,
                        ..RequestSpan::default()
                    };
                    parsed_history.spans.extend(open.insert(who, asked));
                }
                EventKind::Released
                | EventKind::Lost(_)
                | EventKind::Unconfirmed(_)
                | EventKind::Cancelled
                | EventKind::Failed(_) => {
                    let Some(mut span) = open.remove(&who) else { continue };
                    if span.over == u64::MAX {
                        span.believed_until = span.believed_until.min(at);
                        span.over = at;
                    } else if let (EventKind::Lost(how), true) = (what, at < span.ends) {
                        span.deceived = Some((at, how.clone()));
                    }
                    parsed_history.spans.push(span);
                }
                EventKind::Killed => {
                    parsed_history.killed.push(ProcessFault { process, at, until: None, had_it: None });
                }
                EventKind::Stopped => {
                    parsed_history.stopped.push(ProcessFault { process, at, until: None, had_it: None });
                }
                EventKind::HadIt => {
                    let faults = parsed_history.killed.iter_mut().chain(&mut parsed_history.stopped);
                    if let Some(fault) =
                        faults.filter(|fault| fault.process == process).max_by_key(|fault| fault.at)
                    {
                        fault.had_it = Some(at);
                    }
                }
                EventKind::Continued => {
                    if let Some(fault) =
                        parsed_history.stopped.iter_mut().rfind(|fault| fault.process == process)
                    {
                        fault.until = Some(at);
                    }
                }
                _ => {
                    if let Some(span) = open.get_mut(&who) {
                        span.goes_on(at, what);
                    }
                }
            }
        }
        for (_, mut span) in open {
            if let Some(fault) = parsed_history.killed.iter().find(|fault| fault.process == span.process) {
                let died = fault.at.max(last_heard.get(&span.process).copied().unwrap_or(0));
                span.over = span.over.min(died);
                span.believed_until = span.believed_until.min(died);
            }
            parsed_history.spans.push(span);
        }
        parsed_history.spans.sort_by_key(|span| span.asks);
        parsed_history
    }

    /// The guards that were considered valid at all, by their start.
    pub fn beliefs(&self) -> Vec<&RequestSpan> {
        let believed = |span: &&RequestSpan| span.granted.is_some_and(|(at, _)| at < span.believed_until);
        let mut beliefs: Vec<_> = self.spans.iter().filter(believed).collect();
        beliefs.sort_by_key(|span| span.granted);
        beliefs
    }

    /// Each pair of guards that were valid at the same time.
    pub fn two_at_once(&self) -> Vec<(&RequestSpan, &RequestSpan)> {
        let mut longest: Option<&RequestSpan> = None;
        let mut found = Vec::new();
        for span in self.beliefs() {
            if let Some(other) = longest.filter(|other| span.begins() < other.believed_until) {
                found.push((other, span));
            }
            if longest.is_none_or(|other| other.believed_until < span.believed_until) {
                longest = Some(span);
            }
        }
        found
    }

    /// Pairs of guards of which the later has no greater fence.
    pub fn fences_that_do_not_rise(&self) -> Vec<(&RequestSpan, &RequestSpan)> {
        self.beliefs()
            .windows(2)
            .filter(|pair| pair[1].fence() <= pair[0].fence())
            .map(|pair| (pair[0], pair[1]))
            .collect()
    }

    pub fn handovers(&self) -> Vec<Handover> {
        let beliefs = self.beliefs();
        let handover = |pair: &[&RequestSpan]| {
            let (from, to) = (pair[0].clone(), pair[1].clone());
            let gap = Duration::from_nanos(to.begins().saturating_sub(from.believed_until.max(to.asks)));
            Handover { from, to, gap }
        };
        beliefs.windows(2).map(handover).collect()
    }

    /// Pairs of requests of which the first was queued before the second asked, and served later.
    pub fn overtaken(&self) -> Vec<(&RequestSpan, &RequestSpan)> {
        let mut served: Vec<&RequestSpan> = self.spans.iter().filter(|span| span.granted.is_some()).collect();
        served.sort_by_key(|span| span.granted);
        let mut standing: BTreeMap<u64, BTreeSet<usize>> = BTreeMap::new();
        for (number, span) in self.spans.iter().enumerate() {
            if let Some(at) = span.stands {
                standing.entry(at).or_default().insert(number);
            }
        }
        let mut found = Vec::new();
        for span in served {
            let at = span.begins();
            let mut gone = Vec::new();
            for (since, numbers) in standing.range(..span.asks) {
                for number in numbers {
                    let other = &self.spans[*number];
                    let waited_until = other.granted.map_or(other.over, |(at, _)| at);
                    if waited_until <= at {
                        gone.push((*since, *number));
                    } else {
                        found.push((other, span));
                    }
                }
            }
            for (since, number) in gone {
                if let Some(numbers) = standing.get_mut(&since) {
                    numbers.remove(&number);
                    if numbers.is_empty() {
                        standing.remove(&since);
                    }
                }
            }
        }
        found
    }
}

impl RequestSpan {
    /// When it got a guard; 0 if it did not.
    pub fn begins(&self) -> u64 {
        self.granted.map_or(0, |(at, _)| at)
    }

    /// The fence of its guard; 0 if it has none.
    pub fn fence(&self) -> u64 {
        self.granted.map_or(0, |(_, fence)| fence)
    }

    /// The keys that it wants, if there is more than one lock.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.wish.iter().flat_map(|wish| wish.keys.iter().map(String::as_str))
    }

    pub(crate) fn mode(&self) -> Wanted {
        self.wish.as_ref().map_or(Wanted::Alone, |wish| wish.mode)
    }

    fn goes_on(&mut self, at: u64, what: &EventKind) {
        match what {
            EventKind::Stands => {
                self.stands.get_or_insert(at);
            }
            EventKind::Granted { fence, until } => {
                self.granted = Some((at, *fence));
                (self.believed_until, self.ends) = (*until, *until);
            }
            EventKind::Renewed { until } => (self.believed_until, self.ends) = (*until, *until),
            EventKind::Done => self.done = Some(at),
            EventKind::LetsGo { held } => {
                // A guard that is valid then is so, whatever end was recorded.
                self.believed_until = if *held { at } else { self.believed_until.min(at) };
                (self.over, self.knew) = (at, !held);
            }
            _ => {}
        }
    }
}

/// Nanoseconds printed as seconds, so that a person can compare them.
struct Millis(u64);

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06}", self.0 / 1_000_000_000, self.0 / 1000 % 1_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed_history(lines: &[&str]) -> ParsedHistory {
        ParsedHistory::of(&lines.iter().map(|line| line.parse().unwrap()).collect::<Vec<_>>())
    }

    const TWO: [&str; 10] = [
        "10 1 1 asks",
        "11 2 1 asks",
        "12 1 1 granted 70 1000",
        "13 2 1 stands",
        "20 1 1 lets-go true",
        "22 1 1 released",
        "25 2 1 granted 71 1000",
        "30 2 1 renewed 2000",
        "40 2 1 lets-go true",
        "41 2 1 lost it had ended",
    ];

    #[test]
    fn a_good_history_has_nothing_against_it() {
        let parsed_history = parsed_history(&TWO);
        assert_eq!(parsed_history.spans.len(), 2);
        assert!(parsed_history.two_at_once().is_empty());
        assert!(parsed_history.fences_that_do_not_rise().is_empty());
        assert!(parsed_history.overtaken().is_empty());
        assert_eq!(parsed_history.handovers()[0].gap, Duration::from_nanos(5));
        assert_eq!(parsed_history.spans[1].deceived, Some((41, "it had ended".into())));
    }

    #[test]
    fn two_that_believe_at_once_are_found() {
        let mut lines = TWO;
        lines[6] = "19 2 1 granted 71 1000";
        let mut history: Vec<Entry> = lines.iter().map(|line| line.parse().unwrap()).collect();
        history.sort_by_key(|entry| entry.at);
        assert_eq!(ParsedHistory::of(&history).two_at_once().len(), 1);
    }

    #[test]
    fn a_fence_that_does_not_rise_is_found() {
        let mut lines = TWO;
        lines[6] = "25 2 1 granted 70 1000";
        assert_eq!(parsed_history(&lines).fences_that_do_not_rise().len(), 1);
    }

    #[test]
    fn a_request_that_jumps_the_queue_is_found() {
        let lines = ["1 1 1 asks", "2 1 1 stands", "3 2 1 asks", "4 2 1 granted 7 90", "5 1 1 granted 8 90"];
        assert_eq!(parsed_history(&lines).overtaken().len(), 1);
        // It is unknown which of these came first.
        let lines = ["1 1 1 asks", "2 2 1 asks", "3 1 1 stands", "4 2 1 granted 7 90", "5 1 1 granted 8 90"];
        assert_eq!(parsed_history(&lines).overtaken().len(), 0);
    }

    #[test]
    fn a_killed_holder_believes_nothing_after_its_death() {
        let lines = [
            "1 1 1 asks",
            "2 1 1 granted 7 900",
            "5 1 0 killed",
            "5 1 0 had-it",
            "6 2 1 asks",
            "50 2 1 granted 8 950",
        ];
        let parsed_history = parsed_history(&lines);
        assert!(parsed_history.killed[0].had_it.is_some() && parsed_history.two_at_once().is_empty());
        assert_eq!(parsed_history.handovers()[0].gap, Duration::from_nanos(44));
    }

    #[test]
    fn a_stopped_holder_believes_no_longer_than_its_lease() {
        let lines = [
            "1 1 1 asks",
            "2 1 1 granted 7 40",
            "3 1 0 stopped",
            "4 2 1 asks",
            "50 2 1 granted 8 950",
            "60 1 0 continued",
            "61 1 1 lets-go false",
            "62 1 1 lost its end had passed",
        ];
        let parsed_history = parsed_history(&lines);
        assert!(parsed_history.two_at_once().is_empty());
        assert_eq!((parsed_history.stopped[0].until, parsed_history.spans[0].believed_until), (Some(60), 40));
        assert_eq!(parsed_history.spans[0].deceived, None);
    }
}
