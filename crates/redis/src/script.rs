//! What is said to the server and what it answers, without saying it.
//!
//! One script serves each request, so that nothing can come between its looking and its writing. The texts are constant,
//! names travel only in `KEYS`, everything else in `ARGV`; each text opens with its contract.

mod texts;

use std::sync::OnceLock;
use std::time::Duration;

use leasehold_core::{Attempt, Holder, Key, LastFence, Line, Request, Stamp, Ttl, Wait};
use redis::{Cmd, cmd};

pub use self::texts::{
    BARE, BREAK, GRANT, INSPECT, MARK, MARKED, MEMBER_GRANT, MEMBER_RENEW, OPEN, RAISE, REJOIN, RELEASE,
    RELEASE_AND_WAKE, RENEW, SURVEY, VOUCH,
};
pub use crate::native::{DeleteIfEqual, native_release, probed, probes};
pub use crate::reply::{Reply, decode};
pub(crate) use crate::reply::{run_of, time_of, time_of_grant};
use crate::slot::{MEMBER_KEY, Side, member_key_in, side_key, slot_of};
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
    pub keys: Vec<Vec<u8>>,
    /// `ARGV`.
    pub args: Vec<Vec<u8>>,
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
        let mut command = cmd(name);
        command.arg(script).arg(self.keys.len()).arg(&self.keys).arg(&self.args);
        command
    }
}

/// The call that finds out whether scripts may be run.
pub(crate) fn opening_call() -> Call {
    Call { script: &OPEN, keys: Vec::new(), args: Vec::new() }
}

/// The call that deletes a key which has these digits for its value.
#[must_use]
pub fn bare_release_call(key: &Key, holder: Holder) -> Call {
    Call { script: &BARE, keys: vec![key.as_bytes().to_vec()], args: vec![holder.digits().into()] }
}

/// The call that inspects many keys at once.
#[must_use]
pub fn survey_call(keys: &[Key]) -> Call {
    Call { script: &SURVEY, keys: keys.iter().flat_map(with_sides).collect(), args: Vec::new() }
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
    let args = vec![b"0".to_vec(), run.into(), longest.as_millis().to_string().into()];
    Call { script: &VOUCH, keys: vec![member_key_in(slot).into()], args }
}

/// Who vouches for what a member of a quorum has not forgotten.
#[derive(Clone, Copy)]
struct Voucher<'a> {
    run: Option<&'a str>,
    /// In a cluster the key must lie where the others lie.
    by_slot: bool,
}

fn call(request: &Request, window: Duration, run: Voucher<'_>) -> Call {
    let window = window.as_millis().to_string().into();
    match request {
        Request::Grant { attempt, wait, not_after } => {
            let [ttl, keep] = lengths(attempt);
            let tail = wire::tail_of(attempt.label.as_ref());
            let mut args = vec![holder(attempt), window, tail, ttl, keep, limit(*not_after), modes(attempt)];
            args.extend(wait.iter().flat_map(|wait| waiting(attempt, wait)));
            by_whom(attempt, [&GRANT, &MEMBER_GRANT], args, run)
        }
        Request::Rejoin { attempt, not_after } => {
            let [ttl, keep] = lengths(attempt);
            let tail = wire::tail_of(attempt.label.as_ref());
            let args = vec![holder(attempt), window, ttl, keep, tail, limit(*not_after), modes(attempt)];
            by_whom(attempt, [&REJOIN; 2], args, run)
        }
        Request::Raise(attempt) => {
            let [_, keep] = lengths(attempt);
            by_whom(attempt, [&RAISE; 2], vec![holder(attempt), window, keep], run)
        }
        Request::Renew(attempt) => {
            let [ttl, keep] = lengths(attempt);
            by_whom(attempt, [&RENEW, &MEMBER_RENEW], vec![holder(attempt), window, ttl, keep], run)
        }
        Request::Release(attempt) => {
            let mut call =
                Call { script: &RELEASE, keys: keys(attempt), args: vec![holder(attempt), window] };
            let sleeps = |key: &Key| attempt.signal.and_then(|signal| signal.place(key));
            if attempt.claim.keys().any(|key| sleeps(key).is_some()) {
                call.script = &RELEASE_AND_WAKE;
                // Where nobody sleeps, the key stands in: it is in the right slot, and is no list.
                let place = |key: &Key| sleeps(key).unwrap_or_else(|| key.as_bytes().to_vec());
                call.keys.extend(attempt.claim.keys().map(place));
            }
            call
        }
        // Nobody has this id, so nothing is released, and all is handed on.
        Request::Advance(of) => {
            let keys = of.iter().flat_map(with_sides).collect();
            Call { script: &RELEASE, keys, args: vec![vec![b'0'; Holder::DIGITS], window] }
        }
        Request::Mark { attempt, mark, keep } => {
            let mut keys = keys(attempt);
            keys.extend(attempt.claim.keys().map(|key| side_key(Side::Mark, key)));
            let args = vec![holder(attempt), wire::mark_of(mark), keep.as_millis().to_string().into()];
            Call { script: &MARK, keys, args }
        }
        Request::Marked(key) => {
            Call { script: &MARKED, keys: vec![side_key(Side::Mark, key)], args: Vec::new() }
        }
        Request::Inspect(key) => Call { script: &INSPECT, keys: with_sides(key).into(), args: Vec::new() },
        Request::Break { key, fence } => {
            let keep = LastFence::kept_for(Ttl::DEFAULT).as_millis().to_string().into();
            let args = vec![fence.to_string().into(), window, keep, wire::BROKEN.into()];
            Call { script: &BREAK, keys: with_sides(key).into(), args }
        }
    }
}

/// A call for an attempt: by the first of the scripts if it stands for itself, and by the second if it has a proposal.
fn by_whom(
    attempt: &Attempt,
    [alone, at_member]: [&'static Script; 2],
    mut args: Vec<Vec<u8>>,
    Voucher { run, by_slot }: Voucher<'_>,
) -> Call {
    let mut keys = keys(attempt);
    let Some(proposal) = attempt.proposal else { return Call { script: alone, keys, args } };
    let slot = by_slot.then(|| slot_of(attempt.claim.first_key().as_bytes()));
    keys.push(slot.map_or_else(|| MEMBER_KEY.into(), member_key_in).into());
    let max_ttl = proposal.max_ttl.as_millis().to_string();
    args.extend([proposal.fence.to_string().into(), run.unwrap_or_default().into(), max_ttl.into()]);
    Call { script: at_member, keys, args }
}

fn limit(not_after: Option<Stamp>) -> Vec<u8> {
    not_after.map_or_else(String::new, |limit| limit.as_micros().to_string()).into()
}

/// Each key of a claim, and its side keys behind it.
fn keys(attempt: &Attempt) -> Vec<Vec<u8>> {
    attempt.claim.keys().flat_map(with_sides).collect()
}

fn with_sides(key: &Key) -> [Vec<u8>; 6] {
    let [fence, line, waiters, holders, shares] =
        [Side::Fence, Side::Line, Side::Waiters, Side::Holders, Side::Shares].map(|side| side_key(side, key));
    [key.as_bytes().to_vec(), fence, line, waiters, holders, shares]
}

/// How each key is wanted, in the order of the keys.
fn modes(attempt: &Attempt) -> Vec<u8> {
    let modes: Vec<_> = attempt.claim.wants().iter().map(|want| wire::mode_of(want.mode)).collect();
    modes.join(" ").into()
}

fn holder(attempt: &Attempt) -> Vec<u8> {
    attempt.holder.digits().into()
}

/// The ttl, and how long the fence is remembered, in milliseconds.
fn lengths(attempt: &Attempt) -> [Vec<u8>; 2] {
    let keep = LastFence::kept_for(attempt.ttl).as_millis();
    [attempt.ttl.as_millis().to_string().into(), keep.to_string().into()]
}

/// What an attempt that waits says besides.
fn waiting(attempt: &Attempt, wait: &Wait) -> [Vec<u8>; 5] {
    let channel = wait.channel.as_ref().map_or_else(Vec::new, |channel| channel.as_bytes().to_vec());
    debug_assert!(!channel.contains(&b' '), "a channel that was not made by wire::channel_of");
    let place = wait.ticket.as_ref().and_then(|(at, ticket)| {
        let nth = attempt.claim.keys().position(|key| key == at)? + 1;
        Some([nth.to_string(), ticket.get().to_string()])
    });
    let [nth, ticket] = place.unwrap_or_default().map(Vec::from);
    let limit = wait.line_limit.map_or_else(String::new, |limit| limit.to_string()).into();
    [channel, nth, ticket, limit, Line::KEPT_FOR.as_millis().to_string().into()]
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

    fn shown(words: &[Vec<u8>]) -> Vec<String> {
        words.iter().map(|word| word.escape_ascii().to_string()).collect()
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
        assert_eq!(shown(&call.keys), [of_a, of_b].concat());
        let what = [DIGITS, "2000", " web-3", "10000", "600000"];
        assert_eq!(shown(&call.args), [&what[..], &["1700000000000000", "x x"]].concat());
        assert_eq!(shown(&grant(None, None).args), [&what[..], &["", "x x"]].concat());

        let ticket = Some((Key::new("b").unwrap(), Ticket::new(1_600_000_000_000_000)));
        let wait = Wait { channel: Some(wire::channel_of(0xcd)), ticket, line_limit: Some(50) };
        let channel = "leasehold:000000000000000000000000000000cd";
        let waits = [channel, "2", "1600000000000000", "50", "15000"];
        assert_eq!(shown(&grant(None, Some(wait)).args), [&what[..], &["", "x x"], &waits[..]].concat());
        let waits = ["", "", "", "", "15000"];
        assert_eq!(
            shown(&grant(None, Some(Wait::default())).args),
            [&what[..], &["", "x x"], &waits[..]].concat()
        );

        let long = attempt(&["a"]).with_ttl(Ttl::MAX);
        let call = called(&Request::Renew(long));
        assert_eq!(shown(&call.args), [DIGITS, "2000", "31536000000", "63072000000"]);
        let call = called(&Request::Release(attempt(&["a"])));
        assert_eq!(
            (shown(&call.keys), shown(&call.args)),
            (shown(&of_a.map(Into::into)), shown(&[DIGITS, "2000"].map(Into::into)))
        );
        let call = called(&Request::Advance(vec![Key::new("a").unwrap()]));
        let nobody = "0".repeat(32);
        assert_eq!((call.keys.len(), shown(&call.args)), (6, shown(&[&*nobody, "2000"].map(Into::into))));
        let call = called(&Request::Inspect(Key::new("a").unwrap()));
        assert_eq!((call.keys.len(), call.args.len()), (6, 0));
        let fence = Fence::new(1_700_000_000_000_000).unwrap();
        let call = called(&Request::Break { key: Key::new("a").unwrap(), fence });
        let args = ["1700000000000000", "2000", "600000", "leasehold:broken"];
        assert_eq!(
            (shown(&call.keys), shown(&call.args)),
            (shown(&of_a.map(Into::into)), shown(&args.map(Into::into)))
        );
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
            assert_eq!(shown(&call.keys), keys);
            assert_eq!(shown(&call.args), [args, &["1700000000000007", "c0ffee", "60000"]].concat());
            assert_eq!(shown(&called(&request).args), [args, &["1700000000000007", "", "60000"]].concat());
        }
        assert_eq!(called(&Request::Release(ours)).keys.len(), 6, "a release is everywhere the same");
    }

    #[test]
    fn calls_say_how_each_key_is_wanted() {
        let of = |claim| {
            let attempt = Attempt::new(claim, Holder::from_bits(0xab), None, Ttl::DEFAULT);
            let grant = called(&Request::Grant { attempt: attempt.clone(), wait: None, not_after: None });
            let rejoin = called(&Request::Rejoin { attempt, not_after: None });
            [grant, rejoin].map(|call| shown(&call.args[6..]))
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
        assert_eq!(shown(&call.keys), [&shown(&lease.keys)[..], &marks].concat());
        assert_eq!(shown(&call.args), [DIGITS, "1700000000000000 1700000000000007 web-3", "7200000"]);
        let call = called(&Request::Marked(Key::new("a").unwrap()));
        assert_eq!((shown(&call.keys), call.args.len()), (vec!["leasehold:m{a}a".to_owned()], 0));
    }

    #[test]
    fn a_release_that_wakes_others_has_where_they_sleep_behind_its_keys() {
        let release = |keys: &[&str], signal| called(&Request::Release(attempt(keys).with_signal(signal)));
        let plain = release(&["lock:b", "a"], None);
        let call = release(&["lock:b", "a"], Some(Signal::PythonRedisLock));
        let sleepers = ["a", "lock-signal:b"].map(String::from);
        assert_eq!(shown(&call.keys), [&shown(&plain.keys)[..], &sleepers].concat());
        assert_eq!((shown(&call.args), call.script.sha()), (shown(&plain.args), RELEASE_AND_WAKE.sha()));
        let call = release(&["a"], Some(Signal::PythonRedisLock));
        assert_eq!((call.keys.len(), call.script.sha()), (6, RELEASE.sha()), "nobody can wait for it there");
    }

    #[test]
    fn a_survey_is_of_the_keys_of_several_inspections() {
        let keys = ["b", "a"].map(|name| Key::new(name).unwrap());
        let call = survey_call(&keys);
        let inspections = keys.map(|key| called(&Request::Inspect(key)).keys).concat();
        assert_eq!((shown(&call.keys), call.args.len()), (shown(&inspections), 0));
    }

    #[test]
    fn at_a_node_of_a_cluster_the_member_key_lies_in_the_slot_of_the_claim() {
        let proposal = Proposal { fence: Fence::new(7).unwrap(), max_ttl: attempt(&["a"]).ttl };
        let ours = attempt(&["{order:7}:stock"]);
        let request = Request::Raise(ours.at_member(ours.holder, proposal));
        let [alone, node] =
            [call_at_member, call_at_node].map(|call| call(&request, Duration::from_secs(2), Some("c0ffee")));
        assert_eq!(alone.keys.last().unwrap(), b"leasehold:member");
        let slot = slot_of(b"{order:7}:stock");
        assert_eq!(*node.keys.last().unwrap(), member_key_in(slot).into_bytes());
        assert_eq!(slot_of(node.keys.last().unwrap()), slot);
        assert_eq!((&node.keys[..6], &node.args), (&alone.keys[..6], &alone.args));
        assert_eq!(member_key_in(slot_of(b"a")), "leasehold:member{a}");

        let vouch = vouch_call(slot_of(b"a"), "c0ffee", proposal.max_ttl);
        assert_eq!(shown(&vouch.keys), ["leasehold:member{a}"]);
        assert_eq!(shown(&vouch.args), ["0", "c0ffee", "10000"]);
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
