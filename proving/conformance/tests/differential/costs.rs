//! A queue's costs in commands: a superfluous one changes no answer, so only counting finds it.

use std::collections::BTreeMap;

use conformance::sequence::RUN;
use leasehold_core::{Attempt, Fence, Holder, Proposal, Request, Wait};
use leasehold_redis::script::{Call, Vouching, batch_call, renew_batch};
use leasehold_redis::wire::channel_of;
use redis::cmd;
use servers::{Flavor, Server};

use crate::cases::{self, NEVER, single};
use crate::subject::Subject;

/// Defines `all`, and a test for each scenario in an empty store.
macro_rules! scenarios {
    ($($scenario:ident,)+) => {
        /// Runs all scenarios, and panics in one that has another cost.
        pub(crate) fn all(subject: &mut Subject) {
            cases::each(subject, &[$($scenario),+]);
        }

        mod each {
            use super::*;

            servers::tests! {
                $(fn $scenario() = cases::each(
                    &mut Subject::on(&Server::start(Flavor::Valkey91)),
                    &[super::$scenario],
                );)+
            }
        }
    };
}

scenarios! {
    a_batch_asks_once_for_all_of_its_claims,
    a_batch_at_a_member_asks_twice_more,
    a_release_reads_a_few_waiters,
    a_join_reads_only_the_end_of_the_queue,
    dead_waiters_are_checked_together,
    the_first_reader_asks_once_what_there_is,
}

fn by(who: u128) -> Attempt {
    cases::by(who, "a")
}

fn waits(who: u128, channel: u128) -> Request {
    let wait = Some(Wait { channel: Some(channel_of(channel)), ..Wait::default() });
    Request::Grant { attempt: by(who), wait, not_after: None }
}

/// A channel without subscribers; all greater numbers have none either.
const DEAF: u128 = 1000;

/// The number of calls of each command when the script of a single request serves a request.
fn costs(subject: &mut Subject, request: &Request) -> BTreeMap<String, u64> {
    costs_of(subject, &single(request))
}

/// The number of calls of each command by a script, without the call of the script itself.
fn costs_of(subject: &mut Subject, call: &Call) -> BTreeMap<String, u64> {
    cmd("CONFIG").arg("RESETSTAT").exec(&mut subject.connection).unwrap();
    subject.say(call).unwrap();
    let stats: String = cmd("INFO").arg("commandstats").query(&mut subject.connection).unwrap();
    let calls = stats.lines().filter_map(|line| {
        let (name, calls) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        Some((name.to_owned(), calls.split(',').next()?.parse().ok()?))
    });
    let besides = ["eval", "evalsha", "config|resetstat", "info"];
    calls.filter(|(name, _)| !besides.contains(&&**name)).collect()
}

#[track_caller]
fn are(costs: &BTreeMap<String, u64>, expected: &[(&str, u64)]) {
    let costs: Vec<_> = costs.iter().map(|(name, calls)| (&**name, *calls)).collect();
    let mut expected = expected.to_vec();
    expected.sort_unstable();
    assert_eq!(costs, expected);
}

/// At any number of claims with one fence key, except for writes and the leases' remaining times.
fn a_batch_asks_once_for_all_of_its_claims(subject: &mut Subject) {
    for n in [1, 2, 64_u8] {
        let all: Vec<_> = (0..n).map(|nth| cases::by(u128::from(nth), &format!("{n}:{nth}"))).collect();
        let all: Vec<_> = all.iter().collect();
        let n = u64::from(n);
        for met_before in [false, true] {
            let cost = costs_of(subject, &batch_call(&all, &[], NEVER, None, false));
            let kept = [("pttl", 1)];
            let looks = [("time", 1), ("get", 1), ("exists", 1), ("set", n + 1)];
            are(&cost, &[&looks[..], if met_before { &kept } else { &[] }].concat());
            let mut cost = costs_of(subject, &renew_batch(&all, None, false));
            cost.remove("pexpire"); // Within the same millisecond there is nothing to prolong.
            are(&cost, &[("mget", 1), ("pttl", n + 1)]);
            let cost = costs_of(subject, &batch_call(&[], &all, NEVER, None, false));
            are(&cost, &[("mget", 1), ("del", 1)]);
        }
    }
}

/// A member is asked for its run id and how long it knows it. All claims share one fence key.
fn a_batch_at_a_member_asks_twice_more(subject: &mut Subject) {
    let longest = by(1).ttl;
    let proposal = Proposal { fence: Fence::new(1).unwrap(), max_ttl: longest };
    let all = ["a", "b"].map(|key| cases::by(1, key).at_member(Holder::from_bits(1), proposal));
    let vouching = Some(Vouching { run: Some(RUN), longest });
    let grants = batch_call(&[&all[0], &all[1]], &[], NEVER, vouching, false);
    let releases = batch_call(&[], &[&all[0], &all[1]], NEVER, None, false);
    for _ in 0..2 {
        let mut cost = costs_of(subject, &grants);
        cost.remove("pexpire"); // Within the same millisecond there is nothing to prolong.
        let looks = [("time", 1), ("get", 1), ("pttl", 2), ("hmget", 1), ("exists", 1)];
        are(&cost, &[&looks[..], &[("set", 2), ("hset", 1)]].concat());
        costs_of(subject, &releases);
    }
}

/// However long the queue is. The first channel has a listener.
fn a_release_reads_a_few_waiters(subject: &mut Subject) {
    for who in 1..=300 {
        costs(subject, &waits(who, 1));
    }
    let cost = costs(subject, &Request::Release(by(1)));
    let looks = [("time", 1), ("getrange", 2), ("exists", 1), ("zcard", 1), ("zscore", 1), ("zrange", 2)];
    let asks = [("hmget", 3), ("hget", 1), ("pubsub|numsub", 1), ("pttl", 1)];
    let writes = [("zrem", 1), ("hdel", 1), ("set", 2), ("hset", 1), ("publish", 2)];
    are(&cost, &[&looks[..], &asks, &writes].concat());
    let cost_of_release = |subject: &mut Subject, who| costs(subject, &Request::Release(by(who)));
    costs(subject, &waits(301, DEAF));
    for who in 2..299 {
        cost_of_release(subject, who);
    }
    let looks = [("time", 1), ("getrange", 2), ("exists", 1), ("zcard", 1), ("zscore", 1), ("zrange", 1)];
    let asks = [("hmget", 2), ("hget", 1), ("pubsub|numsub", 1), ("pttl", 1)];
    // The next waiter has subscribed elsewhere, so it is to watch.
    are(&cost_of_release(subject, 299), &[&looks[..], &asks, &writes].concat());
    costs(subject, &waits(302, 1));
    // The last waiter cannot be notified, so the whole script is needed.
    cost_of_release(subject, 300);
    costs(subject, &waits(303, 1));
    // Nobody is left to watch.
    let writes = [("del", 1), ("set", 2), ("publish", 1)];
    are(&cost_of_release(subject, 302), &[&looks[..], &asks, &writes].concat());
}

/// The first waiter of a queue marks the holder.
fn a_join_reads_only_the_end_of_the_queue(subject: &mut Subject) {
    costs(subject, &waits(1, 1));
    let looks = [("time", 1), ("getrange", 2), ("exists", 1), ("pttl", 1)];
    let writes = [("zadd", 1), ("hset", 1), ("pexpireat", 2), ("zrank", 1)];
    are(&costs(subject, &waits(2, DEAF)), &[&looks[..], &writes, &[("set", 1)]].concat());
    let behind = [("zcard", 1), ("hget", 1), ("zscore", 1), ("zrange", 1), ("hdel", 1)];
    for who in 3..=300 {
        let cost = costs(subject, &waits(who, DEAF));
        are(&cost, &[&looks[..], &behind, &writes].concat());
    }
}

fn dead_waiters_are_checked_together(subject: &mut Subject) {
    for who in 1..=300 {
        costs(subject, &waits(who, DEAF + who));
    }
    let cost = costs(subject, &Request::Release(by(1)));
    let looks = [
        ("time", 1),
        ("getrange", 1),
        ("exists", 1),
        ("zcard", 1),
        ("zscore", 1),
        ("hget", 1),
        ("zrange", 2),
    ];
    let asks = [("hmget", 4), ("pubsub|numsub", 2)];
    are(&cost, &[&looks[..], &asks, &[("zrem", 1), ("hdel", 1), ("del", 1)]].concat());
}

/// The key is free, and nothing is left of a queue or of shares.
fn the_first_reader_asks_once_what_there_is(subject: &mut Subject) {
    let attempt = by(1).reading();
    let cost = costs(subject, &Request::Grant { attempt, wait: None, not_after: None });
    let looks = [("time", 1), ("getrange", 2), ("exists", 3), ("pttl", 1)];
    are(&cost, &[&looks[..], &[("set", 2), ("zadd", 1), ("hset", 1), ("pexpireat", 3)]].concat());
}
