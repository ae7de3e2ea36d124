//! Cases that no history reaches: a script's answer, and what it leaves, in one state of the server.

use std::time::Duration;

use conformance::sequence::{DAY, LONGEST, RUN, WINDOW, heard};
use leasehold_core::{
    Answer, Attempt, Claim, Fence, GrantAnswer, Holder, Key, KeyState, Label, LastFence, Mark, Owner,
    Proposal, Request, Signal, Stamp, Ttl, Wait,
};
use leasehold_redis::script::{
    self, Call, Granted, Vouching, batch_call, call_at_member, locked_call, read_batch, read_done,
    renew_batch, survey_call,
};
use leasehold_redis::slot::{FenceKeys, MEMBER_KEY, Side, member_key_in, side_key, tag_of};
use leasehold_redis::wire;
use redis::{Cmd, FromRedisValue, Value, cmd};
use servers::{Flavor, Server};

use crate::subject::{Subject, plain};

const ALL: [fn(&mut Subject); 56] = [
    a_fence_that_is_no_number_is_an_error,
    a_raised_fence_is_the_proposed_one_or_above_the_last,
    an_agreed_fence_ahead_of_the_clock_is_remembered_for_longer,
    a_batch_grants_the_greatest_fence_and_none_after_it,
    a_fence_key_is_kept_for_the_longest_lease_of_a_request,
    a_ttl_over_the_longest_of_the_quorum_is_an_error,
    a_lease_ends_when_it_did_although_somebody_waits_for_it,
    a_proposed_fence_is_near_the_servers_clock,
    a_grant_that_comes_too_late_grants_nothing,
    each_claim_of_a_batch_is_judged_by_its_own_keys,
    each_lease_of_a_batch_is_judged_by_its_own_keys,
    grants_and_releases_in_one_batch_are_each_judged_by_their_own_keys,
    a_batch_whose_grants_are_refused_releases_nothing,
    a_full_member_renews_by_a_rejoin_what_it_has_and_takes_nothing,
    keys_with_the_same_beginning_share_their_last_fence,
    keys_with_the_same_tag_share_their_last_fence_at_a_member,
    a_batch_at_a_member_needs_its_run,
    a_member_abstains_for_the_longest_ttl_and_a_second,
    a_member_knows_its_run_for_long_enough,
    a_renewal_shortens_nothing,
    a_mark_that_is_no_string_stays,
    a_mark_is_forgotten_once,
    each_key_of_a_claim_is_marked,
    a_survey_and_an_inspection_agree_on_each_key,
    leases_and_markers_are_found_among_other_keys,
    a_long_queue_and_many_shares_are_read_in_parts,
    a_release_wakes_a_client_that_blocks_on_a_list,
    only_a_value_that_is_a_lease_can_be_marked,
    a_server_that_does_not_let_a_script_read_grants_nothing,
    no_share_ends_before_its_ttl,
    a_share_with_a_later_end_than_any_of_ours_does_not_count,
    shares::a_writer_that_becomes_a_reader_admits_readers,
    shares::without_their_sum_no_permit_is_granted,
    shares::a_holder_without_a_record_had_no_permits,
    shares::the_marker_of_a_million_permits_is_known,
    shares::a_refusal_leaves_shares_as_they_are,
    shares::shares_that_were_left_beside_a_lease_do_not_return,
    shares::half_of_what_shares_consist_of_is_removed,
    shares::of_shares_that_end_together_the_one_with_the_lower_id_is_named,
    shares::the_marker_ends_with_the_last_share_that_is_left,
    shares::a_request_removes_a_hundred_ended_shares_and_says_that_more_are_left,
    queue::a_reader_that_asks_at_its_turn_lets_the_next_one_in,
    queue::a_key_that_is_kept_gets_one_fence,
    queue::what_is_left_of_a_queue_is_removed,
    queue::who_rejoins_in_vain_claims_what_it_was_handed,
    queue::who_transfers_claims_what_it_was_handed,
    queue::who_asks_at_its_turn_knows_that_others_wait,
    queue::a_queue_without_its_waiters_data_is_removed,
    queue::a_waiter_of_a_process_that_left_a_hand_over_is_skipped,
    queue::of_waiters_with_one_ticket_the_one_with_the_lower_id_is_first,
    queue::the_last_waiter_that_is_looked_at_watches_a_new_holder,
    queue::who_asks_behind_another_waiter_does_not_watch_the_new_holder,
    queue::a_queue_ends_when_its_last_hand_over_is_claimed,
    queue::the_waiters_of_a_process_that_cannot_be_notified_are_skipped_together,
    queue::a_label_of_32_digits_is_not_taken_for_a_nonce,
    queue::a_waiter_with_times_that_no_server_accepts_is_skipped,
];

/// Runs all cases, and panics in one that fails.
pub(crate) fn all(subject: &mut Subject) {
    each(subject, &ALL);
}

/// Runs each of these in a store that knows only its run.
pub(crate) fn each(subject: &mut Subject, cases: &[fn(&mut Subject)]) {
    for case in cases {
        cmd("FLUSHALL").exec(&mut subject.connection).unwrap();
        vouched(subject, 20 * DAY);
        case(subject);
        subject.forget_pushes();
    }
}

servers::tests! {
    fn redis_6_2_answers_each_case() = all(&mut Subject::on(&Server::start(Flavor::Redis62)));
    fn redis_7_0_answers_each_case() = all(&mut Subject::on(&Server::start(Flavor::Redis70)));
    fn valkey_9_1_answers_each_case() = all(&mut Subject::on(&Server::start(Flavor::Valkey91)));
}

/// A panic that says what was expected, and what was seen.
macro_rules! ensure {
    ($holds:expr $(, $seen:expr)*) => {
        assert!($holds, "not {}: {:?}", stringify!($holds), ($(&$seen,)*));
    };
}

// After the macro, which they use.
mod queue;
mod shares;

const SECOND: u64 = 1_000_000;
pub(crate) const NEVER: Stamp = Stamp::from_micros(1 << 53);

fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

fn ttl(time: Duration) -> Ttl {
    Ttl::new(time).unwrap()
}

/// The TTL of all attempts, unless a case says otherwise.
const TIME: Duration = Duration::from_secs(900);

fn of(who: u128, claim: Claim) -> Attempt {
    Attempt::new(claim, Holder::from_bits(who), None, ttl(TIME))
}

pub(crate) fn by(who: u128, name: &str) -> Attempt {
    of(who, Claim::exclusive(key(name)))
}

/// One attempt, which a quorum makes if there is a fence to propose.
fn by_at(name: &str, fence: Option<u64>) -> Attempt {
    let ours = by(1, name);
    if let Some(fence) = fence { at_member(ours, fence) } else { ours }
}

/// One attempt to have all of these keys.
fn by_for_all(who: u128, names: &[&str]) -> Attempt {
    of(who, Claim::exclusive_all(names.iter().map(|name| key(name))).unwrap())
}

fn reader(who: u128, name: &str) -> Attempt {
    of(who, Claim::shared([key(name)]).unwrap())
}

/// Asks, and is answered with this code.
#[track_caller]
fn is_answered(subject: &mut Subject, request: &Request, expected: i64) {
    let value = raw(subject, request);
    assert_eq!(code(&value), Some(expected), "{request:?} was answered {value:?}");
}

/// The same as a quorum requests it, with this proposed fence.
fn at_member(attempt: Attempt, fence: u64) -> Attempt {
    let proposal = Proposal { fence: Fence::new(fence).unwrap(), max_ttl: ttl(LONGEST) };
    attempt.clone().at_member(attempt.holder, proposal)
}

fn grant(attempt: &Attempt) -> Request {
    Request::Grant { attempt: attempt.clone(), wait: None, not_after: None }
}

fn waits(attempt: &Attempt) -> Request {
    let wait = Some(Wait { channel: heard().pop(), ..Wait::default() });
    Request::Grant { attempt: attempt.clone(), wait, not_after: None }
}

fn rejoin(attempt: &Attempt) -> Request {
    Request::Rejoin { attempt: attempt.clone(), not_after: None }
}

fn vouching(run: Option<&'static str>) -> Option<Vouching<'static>> {
    Some(Vouching { run, longest: ttl(LONGEST) })
}

/// A batch of these grants, asked of a member if they are requested as a quorum does.
fn batch_of(attempts: &[&Attempt], not_after: Stamp) -> Call {
    let at = attempts[0].proposal.and(vouching(Some(RUN)));
    batch_call(attempts, &[], not_after, at, false)
}

/// The fences that a batch of grants answers to these attempts; none if it came too late.
fn fences(value: &Value, attempts: &[&Attempt]) -> Option<Vec<Option<u64>>> {
    match read_batch(value, attempts, 0, attempts[0].proposal.is_some()).unwrap().granted {
        Granted::Served { fences, .. } => {
            Some(fences.into_iter().map(|fence| fence.map(Fence::get)).collect())
        }
        Granted::TooLate { .. } | Granted::Nothing => None,
    }
}

/// Asks for these grants in a batch.
fn granted(subject: &mut Subject, attempts: &[&Attempt]) -> Vec<Option<u64>> {
    fences(&say(subject, &batch_of(attempts, NEVER)), attempts).expect("it is in time")
}

/// Renews in a batch.
fn renewed(subject: &mut Subject, attempt: &Attempt, run: Option<&'static str>) -> bool {
    let at = attempt.proposal.and(vouching(run));
    read_done(&say(subject, &renew_batch(&[attempt], at, false)), 1).unwrap()[0]
}

fn fence_key(attempt: &Attempt) -> Vec<u8> {
    FenceKeys { at_member: attempt.proposal.is_some(), by_slot: false }.name(attempt.claim.first_key())
}

fn last_fence(subject: &mut Subject, attempt: &Attempt) -> Option<u64> {
    if attempt.proposal.is_none() {
        return run(subject, cmd("GET").arg(fence_key(attempt)));
    }
    run(subject, cmd("HGET").arg(fence_key(attempt)).arg(tag_of(attempt.claim.first_key())))
}

fn set_last_fence(subject: &mut Subject, attempt: &Attempt, fence: impl ToString) {
    if attempt.proposal.is_none() {
        return set(subject, fence_key(attempt), fence.to_string());
    }
    let tag = tag_of(attempt.claim.first_key());
    run::<()>(subject, cmd("HSET").arg(fence_key(attempt)).arg(tag).arg(fence.to_string()));
}

fn side(side: Side, name: &str) -> Vec<u8> {
    side_key(side, &key(name))
}

/// Runs a command of another program.
#[track_caller]
fn run<T: FromRedisValue>(subject: &mut Subject, command: &mut Cmd) -> T {
    command.query(&mut subject.connection).unwrap()
}

#[track_caller]
fn say(subject: &mut Subject, call: &Call) -> Value {
    subject.say(call).unwrap()
}

pub(crate) fn single(request: &Request) -> Call {
    call_at_member(request, WINDOW, Some(RUN))
}

/// The unchanged answer of the script of a single request.
#[track_caller]
fn raw(subject: &mut Subject, request: &Request) -> Value {
    say(subject, &single(request))
}

#[track_caller]
fn answer(subject: &mut Subject, request: &Request) -> Answer {
    script::decode(request, raw(subject, request)).unwrap().answer
}

fn inspected(subject: &mut Subject, name: &str) -> KeyState {
    match answer(subject, &Request::Inspect(key(name))) {
        Answer::Inspect(state) => state,
        other => panic!("{other:?} is no answer to an inspection"),
    }
}

#[track_caller]
fn fields(value: &Value) -> &[Value] {
    if let Value::Array(fields) = value { fields } else { panic!("{value:?}") }
}

fn code(value: &Value) -> Option<i64> {
    if let Value::Int(code) = fields(value).first()? { Some(*code) } else { None }
}

/// The fence that the script of a single request grants.
fn single_grant(subject: &mut Subject, attempt: &Attempt) -> Option<u64> {
    match answer(subject, &grant(attempt)) {
        Answer::Grant(GrantAnswer::Granted { fence }) => Some(fence.get()),
        _ => None,
    }
}

/// The server's clock, in µs.
fn clock(subject: &mut Subject) -> u64 {
    let value = say(subject, &Call::of(&script::OPEN, &[], &[]));
    let (seconds, micros): (u64, u64) = redis::from_redis_value(value).unwrap();
    seconds * SECOND + micros
}

/// All keys with their contents, in order.
fn content(subject: &mut Subject) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut keys: Vec<Vec<u8>> = run(subject, cmd("KEYS").arg("*"));
    keys.sort();
    keys.into_iter().map(|key| (key.clone(), run(subject, cmd("DUMP").arg(key)))).collect()
}

/// How many changes the server counts.
fn changes(subject: &mut Subject) -> u64 {
    let info: String = run(subject, cmd("INFO").arg("persistence"));
    let counted = info.lines().find_map(|line| line.strip_prefix("rdb_changes_since_last_save:"));
    counted.unwrap().parse().unwrap()
}

fn set(subject: &mut Subject, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
    run::<()>(subject, cmd("SET").arg(key.as_ref()).arg(value.as_ref()));
}

#[track_caller]
fn lasts(subject: &mut Subject, key: impl AsRef<[u8]>) -> Duration {
    let left: i64 = run(subject, cmd("PTTL").arg(key.as_ref()));
    Duration::from_millis(u64::try_from(left).unwrap_or_else(|_| panic!("PTTL {left}")))
}

fn text(subject: &mut Subject, key: impl AsRef<[u8]>) -> String {
    run(subject, cmd("GET").arg(key.as_ref()))
}

/// What lasts for so long was set within the last seconds.
#[track_caller]
fn is_about(left: Duration, whole: Duration) {
    ensure!(left <= whole && left > whole - Duration::from_secs(5), left, whole);
}

/// The attempt's key has its lease, and the fence of it.
#[track_caller]
fn is_written(subject: &mut Subject, attempt: &Attempt, fence: u64) {
    let there: Vec<u8> = run(subject, cmd("GET").arg(attempt.claim.first_key().as_bytes()));
    ensure!(there == plain(attempt, fence), there.escape_ascii().to_string());
}

fn exists(subject: &mut Subject, key: impl AsRef<[u8]>) -> bool {
    run(subject, cmd("EXISTS").arg(key.as_ref()))
}

/// The server knows its run for this long.
fn vouched(subject: &mut Subject, kept: Duration) {
    run::<()>(subject, cmd("SET").arg(MEMBER_KEY).arg(RUN).arg("PX").arg(kept.as_millis().to_string()));
}

fn a_fence_that_is_no_number_is_an_error(subject: &mut Subject) {
    let (ours, member) = (by(1, "a"), at_member(by(1, "a"), 7));
    for is_list in [false, true] {
        for attempt in [&ours, &member] {
            let fence = fence_key(attempt);
            run::<()>(subject, cmd("DEL").arg(&fence).arg("a"));
            if is_list {
                run::<()>(subject, cmd("RPUSH").arg(&fence).arg("7"));
            } else {
                set_last_fence(subject, attempt, "1.5");
            }
        }
        let before = content(subject);
        for request in [grant(&ours), waits(&ours), grant(&member), waits(&member), rejoin(&member)] {
            let value = raw(subject, &request);
            ensure!(code(&value) == Some(5), request, value);
            let decoded = script::decode(&request, value);
            ensure!(decoded.as_ref().is_err_and(|why| why.starts_with("leasehold:")), decoded);
        }
        for attempt in [&ours, &member] {
            assert_eq!(granted(subject, &[attempt]), [None]);
        }
        ensure!(content(subject) == before);
        set(subject, "a", plain(&ours, 7));
        let before = content(subject);
        let value = raw(subject, &Request::Raise(member.clone()));
        let name = Value::BulkString(fence_key(&member));
        ensure!(code(&value) == Some(5) && fields(&value)[2] == name, value);
        ensure!(content(subject) == before);
        is_answered(subject, &Request::Renew(by(2, "a")), 1);
    }
}

/// Holders of one key have different fences, and each learns the one that it has.
fn a_raised_fence_is_the_proposed_one_or_above_the_last(subject: &mut Subject) {
    let base = clock(subject);
    let reader = |who, fence| at_member(by(who, "a").reading(), fence);
    is_answered(subject, &grant(&reader(1, base + 10)), 0);
    is_answered(subject, &grant(&reader(2, base + 20)), 0);
    let alone = at_member(by(1, "b"), base + 20);
    is_answered(subject, &grant(&alone), 0);
    set_last_fence(subject, &alone, base + 50);
    for (asks, expected) in
        [(reader(1, base + 10), base + 10), (reader(1, base + 20), base + 21), (alone, base + 50)]
    {
        let said = raw(subject, &Request::Raise(asks));
        let fence = Value::BulkString(expected.to_string().into_bytes());
        ensure!(code(&said) == Some(0) && fields(&said)[1] == fence, said, expected);
    }
    let mut share = cmd("HGET");
    let share: String = run(subject, share.arg(side(Side::Shares, "a")).arg(Holder::from_bits(1).digits()));
    ensure!(share.starts_with(&format!("1 {} ", base + 21)), share);
    // The next grant is above it.
    let last = last_fence(subject, &reader(1, base));
    ensure!(last == Some(base + 21), last);
}

/// A number that is ahead by more than a day comes from no clock.
fn an_agreed_fence_ahead_of_the_clock_is_remembered_for_longer(subject: &mut Subject) {
    let now = clock(subject);
    for (hours, longer) in [(25, 0), (23, 23)] {
        let mut agreed = at_member(by(1, &format!("{hours}:a")), now + hours * 3600 * SECOND);
        is_answered(subject, &rejoin(&agreed), 0);
        let kept = LastFence::kept_for(agreed.ttl) + Duration::from_secs(longer * 3600);
        let about = kept - Duration::from_secs(30)..=kept + Duration::from_secs(30);
        ensure!(about.contains(&lasts(subject, fence_key(&agreed))), hours);
        agreed = at_member(by(2, &format!("raised{hours}:a")), now);
        is_answered(subject, &grant(&agreed), 0);
        agreed = at_member(agreed, now + hours * 3600 * SECOND);
        is_answered(subject, &Request::Raise(agreed.clone()), 0);
        ensure!(about.contains(&lasts(subject, fence_key(&agreed))), hours);
    }
}

/// Also one that an operator let have no end.
fn a_lease_ends_when_it_did_although_somebody_waits_for_it(subject: &mut Subject) {
    for (name, has_end) in [("a", true), ("b", false)] {
        ensure!(granted(subject, &[&by(1, name)])[0].is_some());
        if !has_end {
            run::<()>(subject, cmd("PERSIST").arg(name));
        }
        let before: i64 = run(subject, cmd("PTTL").arg(name));
        is_answered(subject, &waits(&by(2, name)), 7);
        let after: i64 = run(subject, cmd("PTTL").arg(name));
        ensure!((after == -1) != has_end && after <= before && before - after < 60_000, (before, after));
    }
}

fn a_ttl_over_the_longest_of_the_quorum_is_an_error(subject: &mut Subject) {
    let long = at_member(by(1, "a"), 7).with_ttl(ttl(LONGEST + Duration::from_millis(1)));
    let before = content(subject);
    for request in [grant(&long), waits(&long), rejoin(&long), Request::Renew(long.clone())] {
        is_answered(subject, &request, 11);
    }
    assert_eq!(granted(subject, &[&long]), [None]);
    ensure!(content(subject) == before);
    ensure!(granted(subject, &[&by(1, "a")])[0].is_some());
    ensure!(!renewed(subject, &long, Some(RUN)));
    ensure!(lasts(subject, "a") <= TIME);
    // The longest TTL itself is allowed.
    let whole = |name| at_member(by(1, name), 7).with_ttl(ttl(LONGEST));
    ensure!(renewed(subject, &whole("a"), Some(RUN)));
    ensure!(lasts(subject, "a") > LONGEST - Duration::from_secs(1));
    ensure!(granted(subject, &[&whole("b")])[0].is_some());
    for request in [grant(&whole("c")), Request::Renew(whole("c")), rejoin(&whole("c"))] {
        is_answered(subject, &request, 0);
    }
}

fn a_proposed_fence_is_near_the_servers_clock(subject: &mut Subject) {
    let margin = u64::try_from(Fence::MARGIN.as_micros()).unwrap();
    for (nth, batch) in [(0, false), (1, true)] {
        let granted = |subject: &mut Subject, name: &str, fence| {
            let attempt = at_member(by(1, &format!("{name}{nth}")), fence);
            if batch { granted(subject, &[&attempt])[0] } else { single_grant(subject, &attempt) }
        };
        let now = clock(subject);
        for near in [now - SECOND, now + SECOND] {
            let fence = granted(subject, &near.to_string(), near);
            ensure!(fence == Some(near), fence);
        }
        let before = clock(subject);
        let [late, early] = [1, before + 3600 * SECOND].map(|far| granted(subject, &far.to_string(), far));
        let (late, early) = (late.unwrap_or(0), early.unwrap_or(0));
        let after = clock(subject);
        ensure!((before - margin..=after - margin).contains(&late), before, late);
        ensure!((before + margin..=after + margin).contains(&early), before, early);
        // After a greater fence, the next number.
        let name = format!("last{nth}");
        set_last_fence(subject, &at_member(by(1, &name), now), now + 60 * SECOND);
        let fence = granted(subject, "last", now);
        ensure!(fence == Some(now + 60 * SECOND + 1), fence);
        // The same after the very fence that is proposed, which is remembered for no shorter time.
        let same = at_member(by(1, &format!("same{nth}")), now);
        set_last_fence(subject, &same, now);
        let last = fence_key(&same);
        run::<()>(subject, cmd("EXPIRE").arg(&last).arg(4000));
        let fence = granted(subject, "same", now);
        ensure!(fence == Some(now + 1) && lasts(subject, &last) > Duration::from_secs(3900), fence);
    }
    let before = clock(subject);
    let fence = single_grant(subject, &by(1, "alone"));
    ensure!(fence.is_some_and(|fence| fence >= before && fence <= before + SECOND), fence);
}

/// Of the waiters to whom a release hands its keys, one asks for a long lease.
fn a_fence_key_is_kept_for_the_longest_lease_of_a_request(subject: &mut Subject) {
    let both = by_for_all(1, &["a", "b"]);
    is_answered(subject, &grant(&both), 0);
    let long = by(2, "a").with_ttl(ttl(Duration::from_secs(5000)));
    for waiter in [&long, &by(3, "b")] {
        is_answered(subject, &waits(waiter), 7);
    }
    is_answered(subject, &Request::Release(both), 0);
    let kept = lasts(subject, fence_key(&long));
    ensure!(kept > Duration::from_secs(9000), kept);
}

fn a_batch_grants_the_greatest_fence_and_none_after_it(subject: &mut Subject) {
    let last = by(1, "a");
    set_last_fence(subject, &last, Fence::MAX.get() - 1);
    assert_eq!(granted(subject, &[&last]), [Some(Fence::MAX.get())]);
    assert_eq!(granted(subject, &[&by(1, "b")]), [None]);
}

fn a_grant_that_comes_too_late_grants_nothing(subject: &mut Subject) {
    let now = clock(subject);
    let [late, soon] = [now - 1, now + 60 * SECOND].map(Stamp::from_micros);
    let before = content(subject);
    for attempt in [by(1, "a"), at_member(by(1, "a"), now)] {
        let value = say(subject, &batch_of(&[&attempt], late));
        ensure!(fences(&value, &[&attempt]).is_none(), value);
        let value = answer(subject, &Request::Grant { attempt, wait: None, not_after: Some(late) });
        ensure!(matches!(value, Answer::Grant(GrantAnswer::TooLate { .. })), value);
    }
    let rejoin = |not_after| Request::Rejoin { attempt: at_member(by(1, "a"), now), not_after };
    is_answered(subject, &rejoin(Some(late)), 6);
    ensure!(content(subject) == before);
    is_answered(subject, &rejoin(Some(soon)), 0);
    is_answered(subject, &Request::Grant { attempt: by(1, "b"), wait: None, not_after: Some(soon) }, 0);
    for attempt in [by(1, "c"), at_member(by(1, "d"), now)] {
        let value = say(subject, &batch_of(&[&attempt], soon));
        ensure!(fences(&value, &[&attempt]).is_some_and(|all| all[0].is_some()), value);
    }
}

fn a_batch_at_a_member_needs_its_run(subject: &mut Subject) {
    let now = clock(subject);
    let serves = |subject: &mut Subject, name: &str, run| {
        let attempt = at_member(by(1, name), now);
        let value = say(subject, &batch_call(&[&attempt], &[], NEVER, vouching(run), false));
        let is_granted = fences(&value, &[&attempt]).is_some_and(|all| all[0].is_some());
        set(subject, name, plain(&attempt, 7));
        (is_granted, renewed(subject, &attempt, run))
    };
    run::<()>(subject, cmd("DEL").arg(MEMBER_KEY));
    assert_eq!(serves(subject, "a", Some(RUN)), (false, false));
    assert_eq!(serves(subject, "b", None), (true, true));
    set(subject, MEMBER_KEY, "another");
    run::<()>(subject, cmd("PEXPIRE").arg(MEMBER_KEY).arg(1_728_000_000_u64));
    assert_eq!(serves(subject, "c", Some(RUN)), (false, false));
    vouched(subject, 14 * DAY);
    assert_eq!(serves(subject, "d", Some(RUN)), (false, false));
    vouched(subject, 15 * DAY + Duration::from_secs(5));
    assert_eq!(serves(subject, "e", Some(RUN)), (true, true));
}

fn a_member_abstains_for_the_longest_ttl_and_a_second(subject: &mut Subject) {
    let slot = 15_495; // Of the key `a`.
    let (key, longest) = (member_key_in(slot), LONGEST.as_millis().to_string());
    let member = Call::of(&script::VOUCH, &[key.as_bytes()], &[b"0", RUN.as_bytes(), longest.as_bytes()]);
    let whole = LONGEST + Duration::from_secs(1);
    let left_of = |value: &Value| match fields(value) {
        [Value::Int(10), Value::Int(left), ..] => Duration::from_millis(u64::try_from(*left).unwrap()),
        _ => panic!("no abstention: {value:?}"),
    };
    let name = member.keys().next().unwrap().to_vec();
    assert_eq!(left_of(&say(subject, &member)), whole);
    let said = text(subject, &name);
    let since = said.strip_prefix(&format!("{RUN} ")).and_then(|since| since.parse().ok());
    ensure!(since.is_some_and(|since: u64| since > 0), said);
    ensure!(lasts(subject, &name) > 29 * DAY);
    // Also for the member's own requests, and depending on when the quarantine began.
    let now = clock(subject);
    for ago in [0, 60, 5000] {
        let since = now - ago * SECOND;
        for member_key in [&name[..], MEMBER_KEY.as_bytes()] {
            set(subject, member_key, format!("{RUN} {since}"));
        }
        let till = since + u64::try_from(whole.as_micros()).unwrap();
        for value in [say(subject, &member), raw(subject, &grant(&at_member(by(1, "a"), now)))] {
            let left = u64::try_from(left_of(&value).as_micros()).unwrap();
            let rest = till - redis::from_redis_value::<u64>(fields(&value)[2].clone()).unwrap();
            ensure!((rest..rest + 1000).contains(&left), left, rest);
        }
        assert_eq!(text(subject, MEMBER_KEY), format!("{RUN} {since}"));
    }
    let answer = answer(subject, &Request::Renew(at_member(by(1, "a"), now)));
    ensure!(matches!(answer, Answer::Quarantined { .. }), answer);
    set(subject, &name, format!("{RUN} {}", now - 5002 * SECOND));
    assert_eq!(code(&say(subject, &member)), Some(0));
    assert_eq!(text(subject, &name), RUN);
    // It began when the clock was set later than it is now: it starts over.
    set(subject, &name, format!("{RUN} {}", now + 3600 * SECOND));
    ensure!(left_of(&say(subject, &member)) <= whole);
}

fn a_member_knows_its_run_for_long_enough(subject: &mut Subject) {
    let month = 30 * DAY;
    let is_known_for = |subject: &mut Subject, then: Duration, longest: Duration| {
        let proposal = Proposal { fence: Fence::new(7).unwrap(), max_ttl: ttl(longest) };
        let ours = by(1, "a");
        raw(subject, &Request::Renew(ours.clone().at_member(ours.holder, proposal)));
        is_about(lasts(subject, MEMBER_KEY), then);
    };
    for (kept, longest, then) in
        [(16 * DAY, LONGEST, 16 * DAY), (14 * DAY, LONGEST, month), (14 * DAY, 20 * DAY, 40 * DAY)]
    {
        vouched(subject, kept);
        is_known_for(subject, then, longest);
    }
    // A record of the run that has begun to vouch.
    let now = clock(subject);
    for (longest, then) in [(LONGEST, month), (20 * DAY, 40 * DAY)] {
        set(subject, MEMBER_KEY, format!("{RUN} {}", now - 60 * 24 * 3600 * SECOND));
        is_known_for(subject, then, longest);
        run::<()>(subject, cmd("DEL").arg(MEMBER_KEY));
        is_known_for(subject, then, longest);
    }
}

fn a_renewal_shortens_nothing(subject: &mut Subject) {
    let ours = by(1, "a");
    let fence = fence_key(&ours);
    for batch in [false, true] {
        for (lease, kept) in [(100, 200), (100, 1000), (1000, 4000), (2000, 4000)] {
            let [lease, kept] = [lease, kept].map(Duration::from_secs);
            run::<()>(subject, cmd("SET").arg("a").arg(plain(&ours, 7)).arg("EX").arg(lease.as_secs()));
            run::<()>(subject, cmd("SET").arg(&fence).arg(7).arg("EX").arg(kept.as_secs()));
            if batch {
                ensure!(renewed(subject, &ours, None));
            } else {
                is_answered(subject, &Request::Renew(ours.clone()), 0);
            }
            is_about(lasts(subject, "a"), lease.max(TIME));
            is_about(lasts(subject, &fence), kept.max(2 * TIME));
        }
    }
}

fn side_call(script: &'static script::Script, side: &[u8]) -> Call {
    Call::of(script, &[side], &[])
}

fn a_mark_that_is_no_string_stays(subject: &mut Subject) {
    let mark = side(Side::Mark, "a");
    run::<()>(subject, cmd("RPUSH").arg(&mark).arg("x"));
    run::<()>(subject, cmd("PEXPIRE").arg(&mark).arg(500_000));
    let before = content(subject);
    for script in [&script::MARKED, &script::FORGET] {
        let value = say(subject, &side_call(script, &mark));
        let [Value::Int(3), Value::Int(1), Value::Int(left)] = fields(&value)[..] else {
            panic!("{value:?}")
        };
        ensure!((490_000..=500_000).contains(&left), left);
    }
    ensure!(content(subject) == before);
}

fn a_mark_is_forgotten_once(subject: &mut Subject) {
    let (mark, now, before) = (side(Side::Mark, "a"), clock(subject), content(subject));
    let is_said = |subject: &mut Subject, script, said: &[Value]| {
        let value = say(subject, &side_call(script, &mark));
        let (time, rest) = fields(&value).split_last().unwrap();
        let time: u64 = redis::from_redis_value(time.clone()).unwrap();
        ensure!(rest == said && (now..now + 60 * SECOND).contains(&time), value);
    };
    // A replica confirms a `forget` only if it writes.
    let written = changes(subject);
    is_said(subject, &script::FORGET, &[Value::Int(6)]);
    ensure!(changes(subject) > written);
    is_said(subject, &script::MARKED, &[Value::Int(6)]);
    set(subject, &mark, "done");
    let done = [Value::Int(0), Value::BulkString(b"done".to_vec())];
    is_said(subject, &script::MARKED, &done);
    is_said(subject, &script::FORGET, &done);
    ensure!(content(subject) == before);
}

fn each_key_of_a_claim_is_marked(subject: &mut Subject) {
    let attempt = by_for_all(1, &["a", "b", "c"]);
    is_answered(subject, &grant(&attempt), 0);
    let mark = Mark::new(Stamp::from_micros(1), Fence::new(1).unwrap(), None);
    is_answered(subject, &Request::Mark { attempt, mark, keep: DAY }, 0);
    for name in ["a", "b", "c"] {
        is_about(lasts(subject, side(Side::Mark, name)), DAY);
    }
}

/// With a placeholder for the server's time, which varies.
fn without_time(value: Value, now: u64) -> Value {
    match value {
        Value::Array(fields) => {
            Value::Array(fields.into_iter().map(|field| without_time(field, now)).collect())
        }
        Value::BulkString(bytes) => {
            let number = String::from_utf8(bytes.clone()).ok().and_then(|text| text.parse().ok());
            let is_now = number.is_some_and(|number: u64| number.abs_diff(now) < 5 * SECOND);
            if is_now { Value::SimpleString("now".into()) } else { Value::BulkString(bytes) }
        }
        other => other,
    }
}

fn a_survey_and_an_inspection_agree_on_each_key(subject: &mut Subject) {
    for request in [grant(&by(1, "a")), waits(&by(2, "a")), grant(&reader(1, "c")), grant(&reader(2, "c"))] {
        raw(subject, &request);
    }
    run::<()>(subject, cmd("PERSIST").arg("a"));
    run::<()>(subject, cmd("RPUSH").arg("d").arg("x"));
    let keys = ["a", "b", "c", "d"].map(key);
    let now = clock(subject);
    let ended = Holder::from_bits(7).digits();
    run::<()>(subject, cmd("ZADD").arg(side(Side::Holders, "c")).arg(now / 1000 - 1000).arg(&ended));
    let all = say(subject, &survey_call(&keys, FenceKeys { at_member: false, by_slot: false }));
    let each: Vec<_> = keys.into_iter().map(|key| raw(subject, &Request::Inspect(key))).collect();
    let codes: Vec<_> = each.iter().map(code).collect();
    ensure!(codes == [Some(1), Some(6), Some(12), Some(3)], codes);
    ensure!(!format!("{:?}", each[2]).contains(&ended), each[2]);
    let each = Value::Array(each);
    ensure!(without_time(all.clone(), now) == without_time(each.clone(), now), all, each);
    // A key that cannot be read, between others.
    run::<()>(subject, cmd("RPUSH").arg(side(Side::Queue, "e")).arg("x"));
    let around = survey_call(&["a", "e", "b"].map(key), FenceKeys { at_member: false, by_slot: false });
    let seen = say(subject, &around);
    ensure!(matches!(fields(&seen), [Value::Array(_), Value::Nil, Value::Array(_)]), seen);
    let said = without(subject, "zrange", |subject| subject.say(&around));
    ensure!(said.is_err(), said);
}

/// Which of many keys a listing looks at.
fn leases_and_markers_are_found_among_other_keys(subject: &mut Subject) {
    raw(subject, &grant(&by(1, "a")));
    run::<()>(subject, cmd("RPUSH").arg("b").arg("x"));
    set(subject, "c", "lh1 shared");
    set(subject, "d", "lh");
    set(subject, "e", "elh1");
    let keys = ["b", "a", "missing", "c", "d", "e"].map(key);
    let found: Vec<u64> = redis::from_redis_value(say(subject, &locked_call(&keys))).unwrap();
    ensure!(found == [2, 4], found);
    // What cannot be read is not left out.
    let said = without(subject, "getrange", |subject| subject.say(&locked_call(&keys)));
    ensure!(said.is_err(), said);
}

/// Does this while scripts may not call a command.
fn without<T>(subject: &mut Subject, command: &str, work: impl FnOnce(&mut Subject) -> T) -> T {
    let mut rules = cmd("ACL");
    rules.arg("SETUSER").arg("default");
    run::<()>(subject, rules.clone().arg(format!("-{command}")));
    let done = work(subject);
    run::<()>(subject, rules.arg(format!("+{command}")));
    done
}

fn a_long_queue_and_many_shares_are_read_in_parts(subject: &mut Subject) {
    const MANY: u64 = 2100;
    let now = clock(subject);
    for part in 0..MANY / 100 {
        let [mut queue, mut waiters, mut ends, mut shares] =
            [("ZADD", Side::Queue), ("HSET", Side::Waiters), ("ZADD", Side::Holders), ("HSET", Side::Shares)]
                .map(|(name, of)| {
                    let mut command = cmd(name);
                    command.arg(side(of, "a"));
                    command
                });
        for nth in part * 100..(part + 1) * 100 {
            let digits = Holder::from_bits(u128::from(nth)).digits();
            queue.arg(nth).arg(&digits);
            waiters.arg(&digits).arg("900000 1800000 0s leasehold:x web");
            ends.arg(now / 1000 + 60_000 + nth).arg(&digits);
            shares.arg(&digits).arg("1 7 - web");
        }
        for command in [&mut queue, &mut waiters, &mut ends, &mut shares] {
            run::<i64>(subject, command);
        }
    }
    set(subject, "a", "lh1 shared");
    let state = inspected(subject, "a");
    let all: Vec<_> = (0..MANY).map(|nth| Some(Holder::from_bits(u128::from(nth)))).collect();
    let holder = |owner: &Owner| if let Owner::Holder { holder, .. } = owner { Some(*holder) } else { None };
    let holders: Vec<_> = state.holders.iter().map(|held| holder(&held.owner)).collect();
    let waiters: Vec<_> = state.waiters.iter().map(|waiter| Some(waiter.holder)).collect();
    ensure!(holders == all, holders.len());
    ensure!(waiters == all, waiters.len());
}

fn a_release_wakes_a_client_that_blocks_on_a_list(subject: &mut Subject) {
    let ours = by(1, "lock:b").with_signal(Some(Signal::PythonRedisLock));
    let list = "lock-signal:b";
    let elements =
        |subject: &mut Subject, list| run::<Vec<String>>(subject, cmd("LRANGE").arg(list).arg(0).arg(-1));
    let release = Request::Release(ours.clone());
    // Nothing is released, so nobody is woken.
    is_answered(subject, &release, 6);
    ensure!(!exists(subject, list));
    for _ in 0..3 {
        is_answered(subject, &grant(&ours), 0);
        is_answered(subject, &release, 0);
        assert_eq!(elements(subject, list), ["1"]);
        let left = lasts(subject, list);
        ensure!(left <= Duration::from_millis(1000) && left > Duration::from_millis(500), left);
    }
    // Each key has its own list.
    run::<()>(subject, cmd("DEL").arg(list));
    let all = by_for_all(1, &["a", "lock:b", "lock:c", "lock:d"]).with_signal(Some(Signal::PythonRedisLock));
    is_answered(subject, &grant(&all), 0);
    is_answered(subject, &Request::Release(all), 0);
    for list in ["lock-signal:b", "lock-signal:c", "lock-signal:d"] {
        assert_eq!(elements(subject, list), ["1"], "{list}");
    }
    ensure!(!exists(subject, "a"));
    // A waiter of ours is handed the key.
    run::<()>(subject, cmd("DEL").arg(list));
    is_answered(subject, &grant(&ours), 0);
    is_answered(subject, &waits(&by(2, "lock:b")), 7);
    is_answered(subject, &release, 0);
    ensure!(!exists(subject, list));
    is_answered(subject, &Request::Release(by(2, "lock:b")), 0);
    // What fails after the release undoes nothing.
    without(subject, "pexpire", |subject| {
        is_answered(subject, &grant(&ours), 0);
        is_answered(subject, &release, 0);
    });
    run::<()>(subject, cmd("DEL").arg(list));
    // It may be another program's lock.
    set(subject, list, "x");
    is_answered(subject, &grant(&ours), 0);
    is_answered(subject, &release, 0);
    assert_eq!((&*text(subject, list), run(subject, cmd("PTTL").arg(list))), ("x", -1_i64));
}

/// Any content at one of the keys of a claim.
fn each_claim_of_a_batch_is_judged_by_its_own_keys(subject: &mut Subject) {
    /// A key, and whether its content counts: a queue without waiters' data and unmarked shares do not.
    type Place = (fn(&Attempt) -> Vec<u8>, bool);
    const PLACES: [Place; 6] = [
        (|it| it.claim.first_key().as_bytes().to_vec(), true),
        (fence_key, true),
        (|it| side_key(Side::Queue, it.claim.first_key()), false),
        (|it| side_key(Side::Waiters, it.claim.first_key()), true),
        (|it| side_key(Side::Holders, it.claim.first_key()), false),
        (|it| side_key(Side::Shares, it.claim.first_key()), false),
    ];
    let mut round = 0;
    for in_the_way in 0..3 {
        for (place, counts) in PLACES {
            for at in [None, Some(clock(subject))] {
                round += 1;
                // Each has a fence key of its own.
                let names = ["a", "b", "c"].map(|name| format!("{name}{round}:"));
                let attempts = names.each_ref().map(|name| by_at(name, at));
                let all = attempts.each_ref();
                run::<()>(subject, cmd("RPUSH").arg(place(all[in_the_way])).arg("x"));
                // The last fence of one key is not that of another.
                let last = (in_the_way + 1) % 3;
                let greater = clock(subject) + 3600 * SECOND;
                set_last_fence(subject, all[last], greater);
                let fences = granted(subject, &all);
                for (nth, name) in names.iter().enumerate() {
                    let there: Option<Vec<u8>> =
                        cmd("GET").arg(name).query(&mut subject.connection).unwrap_or_default();
                    let Some(fence) = fences[nth] else {
                        ensure!(nth == in_the_way && counts && there.is_none(), round, fences);
                        continue;
                    };
                    ensure!(nth != in_the_way || !counts, round, fences);
                    ensure!(there == Some(plain(all[nth], fence)), round, fences);
                    assert_eq!(last_fence(subject, all[nth]), Some(fence), "{round}");
                    ensure!((nth == last) == (fence == greater + 1), round, fences);
                    let left = lasts(subject, fence_key(all[nth]));
                    ensure!(left > Duration::from_secs(1700), left);
                    is_about(lasts(subject, name), TIME);
                }
            }
        }
    }
}

/// At a member, keys with the same beginning and tag share their last fence.
fn keys_with_the_same_tag_share_their_last_fence_at_a_member(subject: &mut Subject) {
    let now = clock(subject);
    let [a, b, c] = ["x:{t}a", "x:{t}b", "x:c"].map(|name| at_member(by(1, name), now));
    let other = at_member(by(1, "y:{t}"), now);
    set_last_fence(subject, &a, now + 7);
    let all = [&a, &b, &c, &other];
    let expected = [now + 8, now + 8, now, now];
    assert_eq!(granted(subject, &all), expected.map(Some));
    for (attempt, fence) in all.into_iter().zip(expected) {
        is_written(subject, attempt, fence);
        assert_eq!(last_fence(subject, attempt), Some(fence));
    }
    // The text is written only with a new tag.
    let length: i64 = run(subject, cmd("HSTRLEN").arg(fence_key(&a)).arg("about"));
    ensure!(length > 64, length);
    run::<()>(subject, cmd("HDEL").arg(fence_key(&other)).arg("about"));
    say(subject, &batch_call(&[], &[&other], NEVER, None, false));
    let again = at_member(by(2, "y:{t}"), now + 1);
    assert_eq!(granted(subject, &[&again]), [Some(now + 1)]);
    assert_eq!(run::<i64>(subject, cmd("HLEN").arg(fence_key(&again))), 1);
    // One that is not granted changes no last fence.
    say(subject, &batch_call(&[], &[&a, &c], NEVER, None, false));
    let [a, b] = ["x:{t}a", "x:{t}b"].map(|name| at_member(by(2, name), now + 20));
    assert_eq!((granted(subject, &[&b]), last_fence(subject, &b)), (vec![None], Some(now + 8)));
    // The other scripts count the same fences.
    let fence = single_grant(subject, &at_member(by(2, "x:{t}a"), now));
    ensure!(fence == Some(now + 9) && last_fence(subject, &a) == fence, fence);
    // A server searches no list for a field.
    for attempt in [&a, &other] {
        let kept: String = run(subject, cmd("OBJECT").arg("ENCODING").arg(fence_key(attempt)));
        ensure!(kept == "hashtable", kept);
    }
}

/// Keys with the same beginning have one fence key: a new fence is above the last of all of them.
fn keys_with_the_same_beginning_share_their_last_fence(subject: &mut Subject) {
    let far = clock(subject) + 3600 * SECOND;
    let last = fence_key(&by(1, "x:"));
    set(subject, &last, far.to_string());
    let mut labelled = by(1, "y:b");
    labelled.label = Label::new("web-3").ok();
    let all = [&by(1, "x:a"), &by(2, "x:b"), &by(1, "y:a"), &labelled];
    let fences = granted(subject, &all);
    ensure!(fences[..2] == [Some(far + 1); 2] && fences[2] == fences[3], fences);
    ensure!(fences[2].is_some_and(|fence| fence < far), fences);
    for (attempt, fence) in all.into_iter().zip(fences) {
        is_written(subject, attempt, fence.unwrap());
    }
    // One that is not granted has no part in it.
    let all = [&by(3, "x:a"), &by(1, "x:c")];
    assert_eq!(granted(subject, &all), [None, Some(far + 2)]);
    assert_eq!(granted(subject, &all), [None; 2]);
    let number = |subject: &mut Subject| run::<u64>(subject, cmd("GET").arg(&last));
    assert_eq!(number(subject), far + 2);
    // A single request for several keys has one fence, above the last one.
    let both = by_for_all(1, &["x:d", "x:e"]);
    assert_eq!(single_grant(subject, &both), Some(far + 3));
    // Each hand-over has a fence of its own, and what is handed over last is remembered.
    for (who, name) in [(2, "x:d"), (3, "x:e")] {
        is_answered(subject, &waits(&by(who, name)), 7);
    }
    is_answered(subject, &Request::Release(both), 0);
    for (name, fence) in [("x:d", far + 4), ("x:e", far + 5)] {
        let value: Vec<u8> = run(subject, cmd("GET").arg(name));
        assert_eq!(wire::read(&value).1.map(Fence::get), Some(fence), "{name}");
    }
    assert_eq!(number(subject), far + 5);
}

fn each_lease_of_a_batch_is_judged_by_its_own_keys(subject: &mut Subject) {
    let now = clock(subject);
    for taken in 0..3 {
        for (fence, release) in [(None, false), (Some(now), false), (None, true)] {
            let names = ["a", "b:x", "c:x"];
            let attempts = names.map(|name| by_at(name, fence));
            let all = attempts.each_ref();
            for (nth, name) in names.iter().enumerate() {
                let value = plain(&by(if nth == taken { 2 } else { 1 }, name), 7);
                // One of ours lasts for longer than its TTL, and stays so.
                let lasts = if nth == (taken + 1) % 3 { 1_000_000 } else { 100_000 };
                run::<()>(subject, cmd("SET").arg(name).arg(value).arg("PX").arg(lasts));
                set_last_fence(subject, all[nth], 7);
                run::<()>(subject, cmd("PEXPIRE").arg(fence_key(all[nth])).arg(100_000));
            }
            let done = if release {
                let value = say(subject, &batch_call(&[], &all, NEVER, None, false));
                read_batch::<Attempt>(&value, &[], 3, false).unwrap().released
            } else {
                let value = say(subject, &renew_batch(&all, fence.and(vouching(Some(RUN))), false));
                read_done(&value, 3).unwrap()
            };
            for (nth, name) in names.iter().enumerate() {
                ensure!(done[nth] == (nth != taken), done);
                let left = run::<i64>(subject, cmd("PTTL").arg(name));
                let kept = run::<i64>(subject, cmd("PTTL").arg(fence_key(all[nth])));
                if release {
                    ensure!((left == -2) == done[nth] && kept <= 100_000, left, kept);
                } else {
                    let least = if nth == (taken + 1) % 3 { 900_000 } else { 800_000 };
                    ensure!((left > least) == done[nth] && kept > 1_700_000, left, kept);
                }
            }
        }
    }
}

/// Also if the grants come too late.
fn grants_and_releases_in_one_batch_are_each_judged_by_their_own_keys(subject: &mut Subject) {
    let now = clock(subject);
    for (at, serves, too_late) in [
        (None, true, false),
        (None, true, true),
        (Some(Some(RUN)), true, false),
        (Some(Some(RUN)), true, true),
        (Some(Some("another")), false, false),
    ] {
        run::<()>(subject, cmd("DEL").arg(&["a", "b:x", "c:x", "d", "e:x", "f"]));
        let of = |name| by_at(name, at.map(|_| now));
        let mut grants = ["a", "b:x", "c:x"].map(of);
        grants[2].label = Label::new("web-3").ok();
        let releases = ["d", "e:x", "f"].map(of);
        set(subject, "b:x", plain(&by(2, "b:x"), 7));
        for (name, holder) in [("d", 1), ("e:x", 2), ("f", 1)] {
            set(subject, name, plain(&by(holder, name), 7));
        }
        let not_after = if too_late { Stamp::from_micros(now - 1) } else { NEVER };
        let vouching = at.and_then(vouching);
        let call = batch_call(&grants.each_ref(), &releases.each_ref(), not_after, vouching, false);
        let before = clock(subject);
        let value = say(subject, &call);
        let during = before..=clock(subject);
        let served = read_batch(&value, &grants.each_ref(), 3, at.is_some()).unwrap();
        ensure!(served.released == [true, false, true], value);
        let there: Vec<Option<Vec<u8>>> =
            run(subject, cmd("MGET").arg(&["a", "b:x", "c:x", "d", "e:x", "f"]));
        ensure!(there[1] == Some(plain(&by(2, "b:x"), 7)), value);
        ensure!(there[3].is_none() && there[4] == Some(plain(&by(2, "e:x"), 7)) && there[5].is_none(), value);
        match served.granted {
            Granted::TooLate { now } => {
                ensure!(too_late && during.contains(&now.as_micros()), value);
                ensure!(there[0].is_none() && there[2].is_none(), value);
            }
            Granted::Served { now, fences } => {
                ensure!(!too_late && during.contains(&now.as_micros()) && fences[1].is_none(), value);
                for nth in [0, 2] {
                    ensure!(fences[nth].is_some() == serves, value);
                    let written = fences[nth].map(|fence| plain(&grants[nth], fence.get()));
                    ensure!(there[nth] == written, value);
                }
            }
            Granted::Nothing => panic!("there were grants"),
        }
    }
}

fn bounded(subject: &mut Subject, limit: u64) {
    run::<()>(subject, cmd("CONFIG").arg("SET").arg("maxmemory").arg(limit));
}

/// The server's memory is full.
fn a_full_member_renews_by_a_rejoin_what_it_has_and_takes_nothing(subject: &mut Subject) {
    let free = at_member(by(3, "d"), 7);
    for ours in [by_for_all(1, &["a", "b"]), reader(2, "c")] {
        let ours = at_member(ours, 7);
        is_answered(subject, &grant(&ours), 0);
        bounded(subject, 1);
        let [kept, refused] = [&ours, &free].map(|attempt| subject.say(&single(&rejoin(attempt))));
        bounded(subject, 0);
        ensure!(kept.as_ref().is_ok_and(|value| code(value) == Some(0)), kept);
        ensure!(refused.is_err(), refused);
    }
}

/// The same.
fn a_batch_whose_grants_are_refused_releases_nothing(subject: &mut Subject) {
    let [free, held] = ["a", "b"].map(|name| by(1, name));
    let member = at_member(free.clone(), 7);
    set(subject, "b", plain(&held, 7));
    for (grant, at) in [(&free, None), (&member, vouching(Some(RUN)))] {
        bounded(subject, 1);
        let refused = subject.say(&batch_call(&[grant], &[&held], NEVER, at, false));
        bounded(subject, 0);
        let there: Vec<Option<Vec<u8>>> = run(subject, cmd("MGET").arg(&["a", "b"]));
        ensure!(refused.as_ref().is_err_and(|why| why.to_string().contains("OOM")), refused);
        ensure!(there == [None, Some(plain(&held, 7))], refused);
    }
}

/// A label is UTF-8 without control characters, and not too long.
fn only_a_value_that_is_a_lease_can_be_marked(subject: &mut Subject) {
    let digits = by(1, "k").holder.digits();
    let mut labels: Vec<Vec<u8>> =
        [&b""[..], b" ", b"~", b"\x1f", b"\x7f", b"\n", b"a\0b"].map(Vec::from).to_vec();
    labels.extend([256, 257, 100_000].map(|length| b"x".repeat(length)));
    labels.extend([128, 129].map(|length| "\u{e4}".as_bytes().repeat(length)));
    // The first and the last byte of each kind of character, and its neighbours, alone, with too
    // few, the right number, and too many bytes behind them.
    for first in [
        0x7f, 0x80, 0xbf, 0xc0, 0xc1, 0xc2, 0xc3, 0xdf, 0xe0, 0xe1, 0xec, 0xed, 0xee, 0xef, 0xf0, 0xf1, 0xf3,
        0xf4, 0xf5, 0xff,
    ] {
        for second in [0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0] {
            for rest in 0..4 {
                for last in [0x7f, 0x80, 0xbf, 0xc0] {
                    labels.push([&[first, second][..], &vec![last; rest]].concat());
                }
            }
        }
    }
    let mut values: Vec<Vec<u8>> =
        labels.iter().map(|label| [format!("lh1-{digits} ").as_bytes(), label].concat()).collect();
    values.extend(
        ["lh1-{}", "lh1?{}", "lh1-{}x", "lh1-{}.", "lh1-{}.7", "lh1-{}.7 web", "lh1-{}.7.", "lh1-{}.x"]
            .into_iter()
            .chain(["lh1-{}.9007199254740991", "lh1-{}.9007199254740992", "lh1-{}.00000000000000007"])
            .map(|form| form.replace("{}", &digits).into_bytes()),
    );
    for value in values {
        set(subject, "k", &value);
        raw(subject, &waits(&by(2, "k")));
        let marked: Vec<u8> = run(subject, cmd("GET").arg("k"));
        let is_lease = matches!(wire::read(&value).0, Owner::Holder { .. });
        let expected = if is_lease { [&b"lh1+"[..], &value[4..]].concat() } else { value.clone() };
        ensure!(marked == expected, value.escape_ascii().to_string());
        run::<()>(subject, cmd("DEL").arg("k").arg(side(Side::Queue, "k")).arg(side(Side::Waiters, "k")));
    }
}

/// What cannot be read is not free.
fn a_server_that_does_not_let_a_script_read_grants_nothing(subject: &mut Subject) {
    let said = without(subject, "getrange", |subject| subject.say(&single(&grant(&by(1, "k")))));
    ensure!(said.is_err(), said);
    ensure!(!exists(subject, "k"));
}

/// Shares end at whole milliseconds. What an answer says is compared with the time in the answer.
fn no_share_ends_before_its_ttl(subject: &mut Subject) {
    let number = |value: &Value| redis::from_redis_value::<i64>(value.clone()).unwrap();
    for who in 1..=20 {
        let attempt = reader(who, "a");
        let granted = raw(subject, &grant(&attempt));
        let [Value::Int(0), .., granted_at, _] = fields(&granted) else { panic!("{granted:?}") };
        let mut score = cmd("ZSCORE");
        let ends: i64 = run(subject, score.arg(side(Side::Holders, "a")).arg(attempt.holder.digits()));
        let least = number(granted_at) + i64::try_from(TIME.as_micros()).unwrap();
        ensure!((least..least + 1000).contains(&(ends * 1000)), ends, least);
        let busy = raw(subject, &grant(&by(99, "a")));
        let [Value::Int(1), _, _, left, .., refused_at, _] = fields(&busy) else { panic!("{busy:?}") };
        let least = ends * 1000 - number(refused_at);
        ensure!((least..least + 1000).contains(&(number(left) * 1000)), left, least);
        is_answered(subject, &Request::Release(attempt), 0);
    }
}

/// Regression: the server refused such an end after the share was written: nobody could use the lock.
fn a_share_with_a_later_end_than_any_of_ours_does_not_count(subject: &mut Subject) {
    let [one, two] = [1, 2].map(|who| reader(who, "a"));
    let holders = side(Side::Holders, "a");
    let share = |subject: &mut Subject, end: &str, digits: String| {
        run::<i64>(subject, cmd("ZADD").arg(&holders).arg(end).arg(digits))
    };
    let renews = Request::Renew(one.clone());
    let is_free = |subject: &mut Subject| !run::<bool>(subject, cmd("EXISTS").arg("a").arg(&holders));
    for end in ["inf", "1e300", "10000000000000"] {
        is_answered(subject, &grant(&one), 0);
        share(subject, end, Holder::from_bits(7).digits());
        is_answered(subject, &grant(&two), 0);
        is_answered(subject, &renews, 0);
        let left = lasts(subject, "a");
        ensure!(left <= TIME + Duration::from_millis(1), end, left);
        for ours in [&one, &two] {
            is_answered(subject, &Request::Release(ours.clone()), 0);
        }
        ensure!(is_free(subject), end);
        // A holder whose own share got such an end has lost it.
        is_answered(subject, &grant(&one), 0);
        share(subject, end, one.holder.digits());
        is_answered(subject, &renews, 6);
        ensure!(is_free(subject), end);
    }
    is_answered(subject, &grant(&one), 0);
    share(subject, "9999999999999", one.holder.digits());
    is_answered(subject, &renews, 0);
}
