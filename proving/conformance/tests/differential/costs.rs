//! What a line costs a server, in commands: those that ask for nothing change no answer, so that only their number tells.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold_core::{Attempt, Claim, Holder, Key, Request, Ttl, Wait};
use leasehold_redis::script::call_for;
use leasehold_redis::wire::channel_of;
use redis::{Connection, Value, cmd};
use servers::{Flavor, Server};

fn by(who: u128) -> Attempt {
    let claim = Claim::exclusive(Key::new("a").unwrap());
    Attempt::new(claim, Holder::from_bits(who), None, Ttl::new(Duration::from_secs(900)).unwrap())
}

fn waits(who: u128, channel: u128) -> Request {
    let wait = Some(Wait { channel: Some(channel_of(channel)), ..Wait::default() });
    Request::Grant { attempt: by(who), wait, not_after: None }
}

/// How often each command is called to serve a request; what the request itself is called by is left out.
fn costs(connection: &mut Connection, request: &Request) -> BTreeMap<String, u64> {
    cmd("CONFIG").arg("RESETSTAT").exec(connection).unwrap();
    let _: Value = call_for(request, Duration::from_secs(400)).by_text().query(connection).unwrap();
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

#[test]
fn where_nobody_waits_a_line_costs_one_question_and_a_renewal_none() {
    let server = Server::start(Flavor::Valkey91);
    let mut connection = connect(&server);
    let grant = Request::Grant { attempt: by(1), wait: None, not_after: None };
    for grant in [grant, waits(1, 1)] {
        let cost = costs(&mut connection, &grant);
        are(&cost, &[("time", 1), ("get", 2), ("exists", 1), ("pttl", 1), ("set", 2)]);
        let mut cost = costs(&mut connection, &Request::Renew(by(1)));
        cost.remove("pexpire"); // Within the same millisecond there is nothing to prolong.
        are(&cost, &[("time", 1), ("get", 1), ("pttl", 2)]);
        let cost = costs(&mut connection, &Request::Release(by(1)));
        are(&cost, &[("time", 1), ("get", 1), ("exists", 1), ("del", 1)]);
    }
}

/// Of whatever length the line is.
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
    let looks =
        [("time", 1), ("get", 2), ("exists", 1), ("zcard", 1), ("zscore", 1), ("hget", 1), ("zrange", 2)];
    let asks = [("hmget", 3), ("pubsub|numsub", 1), ("pttl", 1)];
    let writes = [("zrem", 1), ("hdel", 1), ("set", 2), ("hset", 1), ("publish", 2)];
    are(&cost, &[&looks[..], &asks, &writes].concat());
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
