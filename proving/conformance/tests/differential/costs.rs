//! The costs of a queue for a server, in commands. A superfluous command changes no answer, so only
//! counting finds it.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold_core::{Attempt, Claim, Fence, Holder, Key, Proposal, Request, Stamp, Ttl, Wait};
use leasehold_redis::script::{Call, Vouching, call_at_member, grant_batch, release_batch, renew_batch};
use leasehold_redis::wire::channel_of;
use redis::{Connection, Value, cmd};
use servers::{Flavor, Server};

fn by(who: u128) -> Attempt {
    by_at(who, "a")
}

fn by_at(who: u128, key: &str) -> Attempt {
    let claim = Claim::exclusive(Key::new(key).unwrap());
    Attempt::new(claim, Holder::from_bits(who), None, Ttl::new(Duration::from_secs(900)).unwrap())
}

fn waits(who: u128, channel: u128) -> Request {
    let wait = Some(Wait { channel: Some(channel_of(channel)), ..Wait::default() });
    Request::Grant { attempt: by(who), wait, not_after: None }
}

/// The server's run id, in requests of a quorum.
const RUN: &str = "abc";

/// How often each command is called to serve a request by its own script.
fn costs(connection: &mut Connection, request: &Request) -> BTreeMap<String, u64> {
    costs_of(connection, &call_at_member(request, Duration::from_secs(400), Some(RUN)))
}

/// How often each command is called by a script, without the call of the script itself.
fn costs_of(connection: &mut Connection, call: &Call) -> BTreeMap<String, u64> {
    cmd("CONFIG").arg("RESETSTAT").exec(connection).unwrap();
    let _: Value = call.by_text().query(connection).unwrap();
    let stats: String = cmd("INFO").arg("commandstats").query(connection).unwrap();
    let calls = stats.lines().filter_map(|line| {
        let (name, calls) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        Some((name.to_owned(), calls.split(',').next()?.parse().ok()?))
    });
    calls.filter(|(name, _)| !["eval", "config|resetstat", "info"].contains(&&**name)).collect()
}

fn are(costs: &BTreeMap<String, u64>, expected: &[(&str, u64)]) {
    let expected: BTreeMap<_, _> =
        expected.iter().map(|(name, calls)| ((*name).to_owned(), *calls)).collect();
    assert_eq!(*costs, expected);
}

fn connect(server: &Server) -> Connection {
    redis::Client::open(server.url()).unwrap().get_connection().unwrap()
}

const LATER: Stamp = Stamp::from_micros(1 << 53);

/// However many claims there are, except for what is written, and for how long each fence and each
/// lease would last.
#[test]
fn what_a_batch_looks_at_costs_one_question_for_all_of_its_claims() {
    let server = Server::start(Flavor::Valkey91);
    let mut connection = connect(&server);
    for n in [1, 2, 64_u8] {
        let all: Vec<_> = (0..n).map(|nth| by_at(u128::from(nth), &format!("{n}:{nth}"))).collect();
        let all: Vec<_> = all.iter().collect();
        let n = u64::from(n);
        for met_before in [false, true] {
            let mut cost = costs_of(&mut connection, &grant_batch(&all, LATER, None));
            assert_eq!(cost.remove("pttl").unwrap_or(0), if met_before { n } else { 0 });
            are(&cost, &[("time", 1), ("mget", 1), ("exists", 1), ("set", 2 * n)]);
            let mut cost = costs_of(&mut connection, &renew_batch(&all, None));
            cost.remove("pexpire"); // Within the same millisecond there is nothing to prolong.
            are(&cost, &[("mget", 1), ("pttl", 2 * n)]);
            let cost = costs_of(&mut connection, &release_batch(&all));
            are(&cost, &[("mget", 1), ("del", 1)]);
        }
    }
}

/// A member is also asked for its run id, and for how long it will know it.
#[test]
fn a_batch_at_a_member_costs_two_questions_more() {
    let server = Server::start(Flavor::Valkey91);
    let mut connection = connect(&server);
    let days = Duration::from_secs(30 * 24 * 3600).as_millis().to_string();
    cmd("SET").arg("leasehold:member").arg(RUN).arg("PX").arg(days).exec(&mut connection).unwrap();
    let longest = Ttl::new(Duration::from_secs(900)).unwrap();
    let proposal = Proposal { fence: Fence::new(1).unwrap(), max_ttl: longest };
    let all = ["a", "b"].map(|key| by_at(1, key).at_member(Holder::from_bits(1), proposal));
    let vouching = Some(Vouching { run: Some(RUN), longest, by_slot: false });
    let cost = costs_of(&mut connection, &grant_batch(&[&all[0], &all[1]], LATER, vouching));
    are(&cost, &[("time", 1), ("get", 1), ("pttl", 1), ("mget", 1), ("exists", 1), ("set", 4)]);
}

/// However long the queue is.
#[test]
fn a_release_looks_at_a_few_of_a_line() {
    let server = Server::start(Flavor::Valkey91);
    let mut connection = connect(&server);
    let mut listener = connect(&server);
    listener
        .send_packed_command(&cmd("SUBSCRIBE").arg(channel_of(1).as_bytes()).get_packed_command())
        .unwrap();
    listener.recv_response().unwrap();
    for who in 1..=300 {
        costs(&mut connection, &waits(who, 1));
    }
    let cost = costs(&mut connection, &Request::Release(by(1)));
    let looks = [("time", 1), ("get", 2), ("exists", 1), ("zcard", 1), ("zscore", 1), ("zrange", 2)];
    let asks = [("hmget", 3), ("hget", 1), ("pubsub|numsub", 1), ("pttl", 1)];
    let writes = [("zrem", 1), ("hdel", 1), ("set", 2), ("hset", 1), ("publish", 2)];
    are(&cost, &[&looks[..], &asks, &writes].concat());
    let cost_of_release = |connection: &mut Connection, who| costs(connection, &Request::Release(by(who)));
    costs(&mut connection, &waits(301, 2));
    for who in 2..299 {
        cost_of_release(&mut connection, who);
    }
    let looks = [("time", 1), ("get", 2), ("exists", 1), ("zcard", 1), ("zscore", 1), ("zrange", 1)];
    let asks = [("hmget", 2), ("hget", 1), ("pubsub|numsub", 1), ("pttl", 1)];
    // The next waiter has subscribed elsewhere, so it is to watch.
    are(&cost_of_release(&mut connection, 299), &[&looks[..], &asks, &writes].concat());
    costs(&mut connection, &waits(302, 1));
    // The last waiter cannot be notified, so the whole script is needed.
    cost_of_release(&mut connection, 300);
    costs(&mut connection, &waits(303, 1));
    // Nobody is left to watch.
    let writes = [("del", 1), ("set", 2), ("publish", 1)];
    are(&cost_of_release(&mut connection, 302), &[&looks[..], &asks, &writes].concat());
}

/// The first waiter of a queue marks the holder.
#[test]
fn who_joins_a_line_looks_at_its_end() {
    let server = Server::start(Flavor::Valkey91);
    let mut connection = connect(&server);
    costs(&mut connection, &waits(1, 1));
    let looks = [("time", 1), ("get", 2), ("exists", 1), ("pttl", 1)];
    let writes = [("zadd", 1), ("hset", 1), ("pexpireat", 2), ("zrank", 1)];
    are(&costs(&mut connection, &waits(2, 2)), &[&looks[..], &writes, &[("set", 1)]].concat());
    let behind = [("zcard", 1), ("hget", 1), ("zscore", 1), ("zrange", 1), ("hdel", 1)];
    for who in 3..=300 {
        let cost = costs(&mut connection, &waits(who, 2));
        are(&cost, &[&looks[..], &behind, &writes].concat());
    }
}

#[test]
fn a_hundred_who_are_gone_are_asked_about_together() {
    let server = Server::start(Flavor::Valkey91);
    let mut connection = connect(&server);
    for who in 1..=300 {
        costs(&mut connection, &waits(who, who));
    }
    let cost = costs(&mut connection, &Request::Release(by(1)));
    let looks =
        [("time", 1), ("get", 1), ("exists", 1), ("zcard", 1), ("zscore", 1), ("hget", 1), ("zrange", 2)];
    let asks = [("hmget", 4), ("pubsub|numsub", 2)];
    are(&cost, &[&looks[..], &asks, &[("zrem", 1), ("hdel", 1), ("del", 1)]].concat());
}
