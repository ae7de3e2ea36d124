//! What is said to the server and what it answers, without saying it.
//!
//! One script serves each request, so that nothing can come between its looking and its writing. The texts are constant,
//! names travel only in `KEYS`, everything else in `ARGV`; each text opens with its contract.

mod texts;
mod words;

use std::sync::OnceLock;
use std::time::Duration;

use leasehold_core::{Attempt, Holder, Key, LastFence, Line, Request, Stamp, Ttl, Wait};
use redis::Cmd;

pub use self::texts::{
    BARE, BREAK, GRANT, INSPECT, MARK, MARKED, MEMBER_GRANT, MEMBER_RENEW, OPEN, RAISE, REJOIN, RELEASE,
    RELEASE_AND_WAKE, RENEW, SURVEY, VOUCH,
};
pub use self::words::Words;
pub use crate::native::{DeleteIfEqual, native_release, probed, probes};
pub use crate::reply::{Reply, decode};
pub(crate) use crate::reply::{run_of, time_of, time_of_grant};
use crate::slot::{MEMBER_KEY, SIDE_LEN, Side, Sides, member_key_in, slot_of};
use crate::wire;

/// A script, known to servers by the SHA-1 of its text.
#[derive(Debug)]
pub struct Script {
    text: &'static str,
    sha: OnceLock<String>,
}

impl Script {
    /// A script of this text.
    #[must_use]
    pub const fn new(text: &'static str) -> Self {
        Self { text, sha: OnceLock::new() }
    }

    /// The text.
    #[must_use]
    pub const fn text(&self) -> &'static str {
        self.text
    }

    /// The SHA-1 of the text, in small hexadecimal digits.
    #[must_use]
    pub fn sha(&self) -> &str {
        self.sha.get_or_init(|| redis::Script::new(self.text).get_hash().to_owned())
    }
}

/// A script with its keys and arguments.
#[derive(Clone, Debug)]
#[expect(
    clippy::exhaustive_structs,
    reason = "a test runs a script of its own with the keys and arguments of another"
)]
pub struct Call {
    /// The script.
    pub script: &'static Script,
    /// `KEYS`.
    pub keys: Words,
    /// `ARGV`.
    pub args: Words,
}

impl Call {
    /// The command that runs the script if the server knows it, and answers `NOSCRIPT` otherwise.
    #[must_use]
    pub fn by_sha(&self) -> Cmd {
        self.command("EVALSHA", self.script.sha())
    }

    /// The command that runs the script whether or not the server knows it; afterwards it does.
    #[must_use]
    pub fn by_text(&self) -> Cmd {
        self.command("EVAL", self.script.text())
    }

    fn command(&self, name: &str, script: &str) -> Cmd {
        let Self { keys, args, .. } = self;
        /// The digits of the number of keys.
        const DIGITS: usize = 10;
        let size = name.len() + script.len() + DIGITS + keys.size() + args.size();
        let mut command = Cmd::with_capacity(3 + keys.len() + args.len(), size);
        command.arg(name).arg(script).arg(keys.len());
        for word in keys.iter().chain(args.iter()) {
            command.arg(word);
        }
        command
    }
}

/// The call that finds out whether scripts may be run.
pub(crate) fn opening_call() -> Call {
    Call { script: &OPEN, keys: Words::default(), args: Words::default() }
}

/// The call that deletes a key which has these digits for its value.
#[must_use]
pub fn bare_release_call(key: &Key, holder: Holder) -> Call {
    let (key, digits) = (key.as_bytes(), holder.digit_bytes());
    Call { script: &BARE, keys: [key].into_iter().collect(), args: [&digits[..]].into_iter().collect() }
}

/// The call that inspects many keys at once.
#[must_use]
pub fn survey_call(keys: &[Key]) -> Call {
    Call { script: &SURVEY, keys: with_sides(keys), args: Words::default() }
}

/// The call that serves a request. A lock that it hands over may remain unclaimed for `window`.
///
/// A member of a quorum is asked by [`call_at_member`]: here, it is believed to forget nothing.
#[must_use]
pub fn call_for(request: &Request, window: Duration) -> Call {
    call_at_member(request, window, None)
}

/// The same. Where the attempt has a proposal, the server abstains until it has been known by this `run` for long enough; `None`
/// if somebody said that it forgets nothing.
#[must_use]
pub fn call_at_member(request: &Request, window: Duration, run: Option<&str>) -> Call {
    call(request, window, Voucher { run, by_slot: false })
}

/// The same at a node of a cluster, where each slot is vouched for by itself.
#[must_use]
pub fn call_at_node(request: &Request, window: Duration, run: Option<&str>) -> Call {
    call(request, window, Voucher { run, by_slot: true })
}

/// The call that has a node abstain for a slot from now on, if it has to, although nothing is asked of it there.
#[must_use]
pub fn vouch_call(slot: u16, run: &str, longest: Ttl) -> Call {
    let (key, mut args) = (member_key_in(slot), Words::default());
    args.extend([b"0", run.as_bytes()]);
    args.show(millis(longest.duration()));
    Call { script: &VOUCH, keys: [key.as_bytes()].into_iter().collect(), args }
}

/// Who vouches for what a member of a quorum has not forgotten.
#[derive(Clone, Copy)]
struct Voucher<'a> {
    run: Option<&'a str>,
    /// In a cluster the key must lie where the others lie.
    by_slot: bool,
}

fn call(request: &Request, window: Duration, run: Voucher<'_>) -> Call {
    match request {
        Request::Grant { attempt, wait, not_after } => {
            let mut args = begun(attempt.holder, window);
            args.write(|bytes| wire::write_tail(attempt.label.as_ref(), bytes));
            lengths(attempt, &mut args);
            limit(*not_after, &mut args);
            modes(attempt, &mut args);
            if let Some(wait) = wait {
                waiting(attempt, wait, &mut args);
            }
            by_whom(attempt, [&GRANT, &MEMBER_GRANT], args, run)
        }
        Request::Rejoin { attempt, not_after } => {
            let mut args = begun(attempt.holder, window);
            lengths(attempt, &mut args);
            args.write(|bytes| wire::write_tail(attempt.label.as_ref(), bytes));
            limit(*not_after, &mut args);
            modes(attempt, &mut args);
            by_whom(attempt, [&REJOIN; 2], args, run)
        }
        Request::Raise(attempt) => {
            let mut args = begun(attempt.holder, window);
            args.show(millis(LastFence::kept_for(attempt.ttl)));
            by_whom(attempt, [&RAISE; 2], args, run)
        }
        Request::Renew(attempt) => {
            let mut args = begun(attempt.holder, window);
            lengths(attempt, &mut args);
            by_whom(attempt, [&RENEW, &MEMBER_RENEW], args, run)
        }
        Request::Release(attempt) => release(attempt, window),
        // Nobody has this id, so nothing is released, and all is handed on.
        Request::Advance(of) => {
            let args = begun(Holder::from_bits(0), window);
            Call { script: &RELEASE, keys: with_sides(of), args }
        }
        Request::Mark { attempt, mark, keep } => {
            let mut keys = keys(attempt);
            for key in attempt.claim.keys() {
                keys.write(|name| Sides::of(key).write(Side::Mark, name));
            }
            let mut args = Words::default();
            args.extend([&attempt.holder.digit_bytes()[..], &wire::mark_of(mark)]);
            args.show(millis(*keep));
            Call { script: &MARK, keys, args }
        }
        Request::Marked(key) => {
            let mut keys = Words::default();
            keys.write(|name| Sides::of(key).write(Side::Mark, name));
            Call { script: &MARKED, keys, args: Words::default() }
        }
        Request::Inspect(key) => Call { script: &INSPECT, keys: with_sides([key]), args: Words::default() },
        Request::Break { key, fence } => {
            let mut args = Words::default();
            args.show(fence);
            args.show(millis(window));
            args.show(millis(LastFence::kept_for(Ttl::DEFAULT)));
            args.push(wire::BROKEN);
            Call { script: &BREAK, keys: with_sides([key]), args }
        }
    }
}

fn release(attempt: &Attempt, window: Duration) -> Call {
    let (mut keys, args) = (keys(attempt), begun(attempt.holder, window));
    let sleeps = |key: &Key| attempt.signal.and_then(|signal| signal.place(key));
    if attempt.signal.is_none() || attempt.claim.keys().all(|key| sleeps(key).is_none()) {
        return Call { script: &RELEASE, keys, args };
    }
    for key in attempt.claim.keys() {
        // Where nobody sleeps, the key stands in: it is in the right slot, and is no list.
        match sleeps(key) {
            Some(place) => keys.push(&place),
            None => keys.push(key.as_bytes()),
        }
    }
    Call { script: &RELEASE_AND_WAKE, keys, args }
}

/// A call for an attempt: by the first of the scripts if it stands for itself, and by the second if it has a proposal.
fn by_whom(
    attempt: &Attempt,
    [alone, at_member]: [&'static Script; 2],
    mut args: Words,
    Voucher { run, by_slot }: Voucher<'_>,
) -> Call {
    let mut keys = keys(attempt);
    let Some(proposal) = attempt.proposal else { return Call { script: alone, keys, args } };
    if by_slot {
        keys.push(member_key_in(slot_of(attempt.claim.first_key().as_bytes())).as_bytes());
    } else {
        keys.push(MEMBER_KEY.as_bytes());
    }
    args.show(proposal.fence);
    args.push(run.unwrap_or_default().as_bytes());
    args.show(millis(proposal.max_ttl.duration()));
    Call { script: at_member, keys, args }
}

/// Each key of a claim, and its side keys behind it.
fn keys(attempt: &Attempt) -> Words {
    with_sides(attempt.claim.keys())
}

fn with_sides<'a>(keys: impl IntoIterator<Item = &'a Key, IntoIter: Clone>) -> Words {
    const SIDES: [Side; 5] = [Side::Fence, Side::Line, Side::Waiters, Side::Holders, Side::Shares];
    let keys = keys.into_iter();
    let size = |key: &Key| (1 + SIDES.len()) * (key.as_bytes().len() + SIDE_LEN);
    let (count, size) = keys.clone().fold((0, 0), |(count, sum), key| (count + 1, sum + size(key)));
    // At a member there is one more, which has the length of a side key, and in its braces a tag.
    let mut words = Words::with_room(count * (1 + SIDES.len()) + 1, size + SIDE_LEN + MEMBER_KEY.len());
    for key in keys {
        words.push(key.as_bytes());
        let sides = Sides::of(key);
        for side in SIDES {
            words.write(|name| sides.write(side, name));
        }
    }
    words
}

/// Whose call it is, and for how long a lock that it hands over may remain unclaimed; and room for the rest.
fn begun(holder: Holder, window: Duration) -> Words {
    const WORDS: usize = 15;
    const BYTES: usize = 256;
    let mut args = Words::with_room(WORDS, BYTES);
    args.push(&holder.digit_bytes());
    args.show(millis(window));
    args
}

/// The ttl, and how long the fence is remembered.
fn lengths(attempt: &Attempt, args: &mut Words) {
    args.show(millis(attempt.ttl.duration()));
    args.show(millis(LastFence::kept_for(attempt.ttl)));
}

fn limit(not_after: Option<Stamp>, args: &mut Words) {
    match not_after {
        Some(limit) => args.show(limit.as_micros()),
        None => args.push(b""),
    }
}

/// How each key is wanted, in the order of the keys.
fn modes(attempt: &Attempt, args: &mut Words) {
    args.write(|bytes| {
        for (nth, want) in attempt.claim.wants().iter().enumerate() {
            if nth > 0 {
                bytes.push(b' ');
            }
            bytes.extend_from_slice(wire::mode_of(want.mode).as_bytes());
        }
    });
}

/// What an attempt that waits says besides.
fn waiting(attempt: &Attempt, wait: &Wait, args: &mut Words) {
    let channel = wait.channel.as_ref().map_or(&b""[..], |channel| channel.as_bytes());
    debug_assert!(!channel.contains(&b' '), "a channel that was not made by wire::channel_of");
    args.push(channel);
    let place = wait.ticket.as_ref().and_then(|(at, ticket)| {
        let nth = attempt.claim.keys().position(|key| key == at)? + 1;
        Some((nth, ticket))
    });
    match place {
        Some((nth, ticket)) => {
            args.show(nth);
            args.show(ticket.get());
        }
        None => args.extend([&b""[..]; 2]),
    }
    match wait.line_limit {
        Some(limit) => args.show(limit),
        None => args.push(b""),
    }
    args.show(millis(Line::KEPT_FOR));
}

/// As scripts have lengths of time. What is longer than they can say is as good as for ever.
fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use leasehold_core::{Claim, Fence, Label, Mark, Proposal, Signal, Ticket, Ttl};

    use super::*;

    fn attempt(keys: &[&str]) -> Attempt {
        let claim = Claim::exclusive_all(keys.iter().map(|key| Key::new(key).unwrap())).unwrap();
        let ttl = Ttl::new(Duration::from_secs(10)).unwrap();
        Attempt::new(claim, Holder::from_bits(0xab), Label::new("web-3").ok(), ttl)
    }

    fn shown<W: AsRef<[u8]>>(words: impl IntoIterator<Item = W>) -> Vec<String> {
        words.into_iter().map(|word| word.as_ref().escape_ascii().to_string()).collect()
    }

    fn called(request: &Request) -> Call {
        call_for(request, Duration::from_secs(2))
    }

    const DIGITS: &str = "000000000000000000000000000000ab";

    #[test]
    fn calls_have_these_keys_and_arguments() {
        let grant = |not_after, wait| {
            let request = Request::Grant { attempt: attempt(&["b", "a"]), wait, not_after };
            called(&request)
        };
        let call = grant(Some(Stamp::from_micros(1_700_000_000_000_000)), None);
        let of_a = [
            "a",
            "leasehold:f{a}a",
            "leasehold:l{a}a",
            "leasehold:w{a}a",
            "leasehold:h{a}a",
            "leasehold:i{a}a",
        ];
        let of_b = [
            "b",
            "leasehold:f{b}b",
            "leasehold:l{b}b",
            "leasehold:w{b}b",
            "leasehold:h{b}b",
            "leasehold:i{b}b",
        ];
        assert_eq!(shown(call.keys.iter()), [of_a, of_b].concat());
        let what = [DIGITS, "2000", " web-3", "10000", "600000"];
        assert_eq!(shown(call.args.iter()), [&what[..], &["1700000000000000", "x x"]].concat());
        assert_eq!(shown(grant(None, None).args.iter()), [&what[..], &["", "x x"]].concat());

        let ticket = Some((Key::new("b").unwrap(), Ticket::new(1_600_000_000_000_000)));
        let wait = Wait { channel: Some(wire::channel_of(0xcd)), ticket, line_limit: Some(50) };
        let channel = "leasehold:000000000000000000000000000000cd";
        let waits = [channel, "2", "1600000000000000", "50", "15000"];
        assert_eq!(
            shown(grant(None, Some(wait)).args.iter()),
            [&what[..], &["", "x x"], &waits[..]].concat()
        );
        let waits = ["", "", "", "", "15000"];
        assert_eq!(
            shown(grant(None, Some(Wait::default())).args.iter()),
            [&what[..], &["", "x x"], &waits[..]].concat()
        );

        let long = attempt(&["a"]).with_ttl(Ttl::MAX);
        let call = called(&Request::Renew(long));
        assert_eq!(shown(call.args.iter()), [DIGITS, "2000", "31536000000", "63072000000"]);
        let call = called(&Request::Release(attempt(&["a"])));
        assert_eq!(
            (shown(call.keys.iter()), shown(call.args.iter())),
            (shown(of_a), shown([DIGITS, "2000"]))
        );
        let call = called(&Request::Advance(vec![Key::new("a").unwrap()]));
        let nobody = "0".repeat(32);
        assert_eq!((call.keys.len(), shown(call.args.iter())), (6, shown([&*nobody, "2000"])));
        let call = called(&Request::Inspect(Key::new("a").unwrap()));
        assert_eq!((call.keys.len(), call.args.len()), (6, 0));
        let fence = Fence::new(1_700_000_000_000_000).unwrap();
        let call = called(&Request::Break { key: Key::new("a").unwrap(), fence });
        let args = ["1700000000000000", "2000", "600000", "leasehold:broken"];
        assert_eq!((shown(call.keys.iter()), shown(call.args.iter())), (shown(of_a), shown(args)));
    }

    #[test]
    fn calls_to_a_member_have_its_key_and_the_proposal_behind_all_others() {
        let max_ttl = Ttl::new(Duration::from_secs(60)).unwrap();
        let proposal = Proposal { fence: Fence::new(1_700_000_000_000_007).unwrap(), max_ttl };
        let ours = attempt(&["a"]);
        let ours = ours.at_member(ours.holder, proposal);
        let not_after = Some(Stamp::from_micros(1_700_000_000_000_000));
        let cases = [
            (
                Request::Grant { attempt: ours.clone(), wait: None, not_after },
                &[DIGITS, "2000", " web-3", "10000", "600000", "1700000000000000", "x"][..],
            ),
            (
                Request::Rejoin { attempt: ours.clone(), not_after },
                &[DIGITS, "2000", "10000", "600000", " web-3", "1700000000000000", "x"],
            ),
            (
                Request::Rejoin { attempt: ours.clone(), not_after: None },
                &[DIGITS, "2000", "10000", "600000", " web-3", "", "x"],
            ),
            (Request::Raise(ours.clone()), &[DIGITS, "2000", "600000"]),
            (Request::Renew(ours.clone()), &[DIGITS, "2000", "10000", "600000"]),
        ];
        for (request, args) in cases {
            let call = call_at_member(&request, Duration::from_secs(2), Some("c0ffee"));
            let sides = ["f", "l", "w", "h", "i"].map(|side| format!("leasehold:{side}{{a}}a"));
            let keys = [&["a".to_owned()][..], &sides, &["leasehold:member".to_owned()]].concat();
            assert_eq!(shown(call.keys.iter()), keys);
            assert_eq!(shown(call.args.iter()), [args, &["1700000000000007", "c0ffee", "60000"]].concat());
            assert_eq!(
                shown(called(&request).args.iter()),
                [args, &["1700000000000007", "", "60000"]].concat()
            );
        }
        assert_eq!(called(&Request::Release(ours)).keys.len(), 6, "a release is everywhere the same");
    }

    #[test]
    fn calls_say_how_each_key_is_wanted() {
        let of = |claim| {
            let attempt = Attempt::new(claim, Holder::from_bits(0xab), None, Ttl::DEFAULT);
            let grant = called(&Request::Grant { attempt: attempt.clone(), wait: None, not_after: None });
            let rejoin = called(&Request::Rejoin { attempt, not_after: None });
            [grant, rejoin].map(|call| shown(call.args.iter().skip(6)))
        };
        let keys = || ["a", "b"].map(|name| Key::new(name).unwrap());
        assert_eq!(of(Claim::shared(keys()).unwrap()), [["s s"], ["s s"]]);
        assert_eq!(of(Claim::permits(keys(), 2, 4).unwrap()), [["p2/4 p2/4"], ["p2/4 p2/4"]]);
    }

    /// The scripts have it as a number of theirs.
    #[test]
    fn shares_are_remembered_as_long_as_a_line() {
        let kept = format!("local SHARES_KEPT = {}\n", Line::KEPT_FOR.as_millis());
        assert!(RELEASE.text().contains(&kept));
    }

    #[test]
    fn marks_have_these_keys_and_arguments() {
        let at = Stamp::from_micros(1_700_000_000_000_000);
        let mark = Mark::new(at, Fence::new(1_700_000_000_000_007).unwrap(), Label::new("web-3").ok());
        let keep = Duration::from_secs(7200);
        let call = called(&Request::Mark { attempt: attempt(&["b", "a"]), mark, keep });
        let marks = ["leasehold:m{a}a", "leasehold:m{b}b"].map(String::from);
        let lease = called(&Request::Release(attempt(&["b", "a"])));
        assert_eq!(shown(call.keys.iter()), [&shown(lease.keys.iter())[..], &marks].concat());
        assert_eq!(shown(call.args.iter()), [DIGITS, "1700000000000000 1700000000000007 web-3", "7200000"]);
        let call = called(&Request::Marked(Key::new("a").unwrap()));
        assert_eq!((shown(call.keys.iter()), call.args.len()), (vec!["leasehold:m{a}a".to_owned()], 0));
    }

    #[test]
    fn a_release_that_wakes_others_has_where_they_sleep_behind_its_keys() {
        let release = |keys: &[&str], signal| called(&Request::Release(attempt(keys).with_signal(signal)));
        let plain = release(&["lock:b", "a"], None);
        let call = release(&["lock:b", "a"], Some(Signal::PythonRedisLock));
        let sleepers = ["a", "lock-signal:b"].map(String::from);
        assert_eq!(shown(call.keys.iter()), [&shown(plain.keys.iter())[..], &sleepers].concat());
        assert_eq!(
            (shown(call.args.iter()), call.script.sha()),
            (shown(plain.args.iter()), RELEASE_AND_WAKE.sha())
        );
        let call = release(&["a"], Some(Signal::PythonRedisLock));
        assert_eq!((call.keys.len(), call.script.sha()), (6, RELEASE.sha()), "nobody can wait for it there");
    }

    #[test]
    fn a_survey_is_of_the_keys_of_several_inspections() {
        let keys = ["b", "a"].map(|name| Key::new(name).unwrap());
        let call = survey_call(&keys);
        let inspections = keys.map(|key| shown(called(&Request::Inspect(key)).keys.iter())).concat();
        assert_eq!((shown(call.keys.iter()), call.args.len()), (inspections, 0));
    }

    #[test]
    fn at_a_node_of_a_cluster_the_member_key_lies_in_the_slot_of_the_claim() {
        let proposal = Proposal { fence: Fence::new(7).unwrap(), max_ttl: attempt(&["a"]).ttl };
        let ours = attempt(&["{order:7}:stock"]);
        let request = Request::Raise(ours.at_member(ours.holder, proposal));
        let [alone, node] =
            [call_at_member, call_at_node].map(|call| call(&request, Duration::from_secs(2), Some("c0ffee")));
        let last = |call: &Call| call.keys.iter().next_back().unwrap().to_vec();
        assert_eq!(last(&alone), b"leasehold:member");
        let slot = slot_of(b"{order:7}:stock");
        assert_eq!(last(&node), member_key_in(slot).into_bytes());
        assert_eq!(slot_of(&last(&node)), slot);
        assert!(node.keys.iter().take(6).eq(alone.keys.iter().take(6)) && node.args == alone.args);
        assert_eq!(member_key_in(slot_of(b"a")), "leasehold:member{a}");

        let vouch = vouch_call(slot_of(b"a"), "c0ffee", proposal.max_ttl);
        assert_eq!(shown(vouch.keys.iter()), ["leasehold:member{a}"]);
        assert_eq!(shown(vouch.args.iter()), ["0", "c0ffee", "10000"]);
    }

    #[test]
    fn commands_have_the_number_of_keys_before_the_keys() {
        let call = called(&Request::Release(attempt(&["a"])));
        let words: Vec<_> = [call.by_sha(), call.by_text()]
            .iter()
            .map(|command| String::from_utf8(command.get_packed_command()).unwrap())
            .collect();
        assert!(
            words[0].starts_with(&format!("*11\r\n$7\r\nEVALSHA\r\n$40\r\n{}\r\n$1\r\n6\r\n", RELEASE.sha()))
        );
        assert!(words[1].starts_with("*11\r\n$4\r\nEVAL\r\n") && words[1].contains(RELEASE.text()));
    }

    #[test]
    fn every_script_opens_with_its_contract() {
        for script in [
            &GRANT,
            &RENEW,
            &RELEASE,
            &RELEASE_AND_WAKE,
            &BREAK,
            &INSPECT,
            &SURVEY,
            &MARK,
            &MARKED,
            &OPEN,
            &BARE,
            &VOUCH,
            &MEMBER_GRANT,
            &MEMBER_RENEW,
            &REJOIN,
            &RAISE,
        ] {
            assert!(script.text().starts_with("-- "));
            assert!(script.text().contains("-- KEYS") && script.text().contains("ARGV"));
        }
    }
}
