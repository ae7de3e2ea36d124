//! Foreign data at our keys on a real server: every request about such a key ends in an answer or
//! in an error text, and other programs' data stays unchanged.

use std::time::Duration;

use fuzz::{Verdict, bytes_near, holds, hunt};
use leasehold_core::{
    Answer, Attempt, BreakNote, Claim, Fence, Holder, Key, LeaseBreak, Mark, Mode, Owner, Request, Stamp,
    Ttl, Wait,
};
use leasehold_redis::{
    script::{call_for, decode},
    slot::{FenceKeys, Side, side_key},
    wire::{self, channel_of},
};
use proptest::{collection::vec, prelude::*, sample::select};
use redis::{Connection, Value, cmd};
use servers::{Flavor, Server};

const VALUES: [&[u8]; 21] = [
    b"lh1-00000000000000000000000000000001.1700000000000000 web-3",
    b"lh1+00000000000000000000000000000002.9007199254740991",
    b"lh1-00000000000000000000000000000001 web-3",
    b"lh1+00000000000000000000000000000001",
    "lh1-00000000000000000000000000000001 größe 鍵 🔒".as_bytes(),
    b"lh1-00000000000000000000000000000002 a\tb",
    b"lh1-00000000000000000000000000000002 \xc2\x85",
    b"lh1-0123456789abcdef0011223344556677",
    b"lh2-0123456789abcdef0011223344556677 web-3",
    b"lh1 shared",
    b"lh1 permits 4",
    b"1700000000000000",
    b"9007199254740991",
    b"30000 600000 0 leasehold:00000000000000000000000000000001 web-3",
    b"10000 600000 0p2/4 leasehold:00000000000000000000000000000001",
    b"2 1700000000000000 - web-3",
    b"1 - leasehold:00000000000000000000000000000001",
    b"00000000000000000000000000000001",
    b"00000000000000000000000000000002 leasehold:00000000000000000000000000000001",
    b"n",
    b"u",
];

/// Data that another program wrote to one of the six keys of a lock.
#[derive(Clone, Debug)]
enum Left {
    String(usize, Vec<u8>),
    Member(usize, f64, Vec<u8>),
    Field(usize, Vec<u8>, Vec<u8>),
    List(usize),
}

fn left() -> impl Strategy<Value = Left> {
    let score = prop_oneof![
        4 => (0..4_000_000_000_000_000_u64).prop_map(|score| score as f64),
        2 => (1_700_000_000_000_u64..4_000_000_000_000).prop_map(|score| score as f64),
        1 => Just(f64::INFINITY),
        1 => Just(f64::NEG_INFINITY),
        1 => Just(-1.5),
        1 => Just(1e300),
    ];
    prop_oneof![
        5 => (prop_oneof![5 => Just(0_usize), 2 => Just(1), 1 => 2..6_usize], bytes_near(&VALUES)).prop_map(|(at, it)| Left::String(at, it)),
        4 => (select(vec![2_usize, 4]), score, bytes_near(&VALUES)).prop_map(|(at, score, it)| Left::Member(at, score, it)),
        6 => (select(vec![3_usize, 5]), bytes_near(&VALUES), bytes_near(&VALUES)).prop_map(|(at, field, it)| Left::Field(at, field, it)),
        1 => (0..6_usize).prop_map(Left::List),
    ]
}

fn key() -> Key {
    Key::new("a").expect("a key")
}

/// The key, and its five side keys.
fn six() -> [Vec<u8>; 6] {
    let fence_key = FenceKeys { at_member: false, by_slot: false }.name(&key());
    let [queue, waiters, holders, shares] =
        [Side::Queue, Side::Waiters, Side::Holders, Side::Shares].map(|side| side_key(side, &key()));
    [b"a".to_vec(), fence_key, queue, waiters, holders, shares]
}

fn write(connection: &mut Connection, left: &Left, keys: &[Vec<u8>; 6]) {
    // The server refuses commands that do not fit the existing value, which is fine.
    let _ = match left {
        Left::String(at, it) => cmd("SET").arg(&keys[*at]).arg(it).arg("PX").arg(60_000).exec(connection),
        Left::Member(at, score, it) => cmd("ZADD").arg(&keys[*at]).arg(*score).arg(it).exec(connection),
        Left::Field(at, field, it) => cmd("HSET").arg(&keys[*at]).arg(field).arg(it).exec(connection),
        Left::List(at) => cmd("RPUSH").arg(&keys[*at]).arg("x").exec(connection),
    };
}

fn requests(who: u128, mode: Mode) -> Vec<Request> {
    let claim = match mode {
        Mode::Shared => Claim::shared([key()]).expect("a key"),
        Mode::Permits { weight, of } => Claim::permits([key()], weight, of).expect("permits"),
        _ => Claim::exclusive(key()),
    };
    let attempt = Attempt::new(claim, Holder::from_bits(who), None, Ttl::DEFAULT);
    let fence = Fence::new(1_700_000_000_000_000).expect("a fence");
    let mark = Mark::new(Stamp::from_micros(5), fence, None);
    let wait = Some(Wait { channel: Some(channel_of(who)), ..Wait::default() });
    vec![
        Request::Inspect(key()),
        Request::Grant { attempt: attempt.clone(), wait: None, not_after: None },
        Request::Renew(attempt.clone()),
        Request::Grant { attempt: attempt.clone(), wait, not_after: None },
        Request::Mark { attempt: attempt.clone(), mark, keep: Duration::from_secs(60) },
        Request::Marked(key()),
        Request::Break { key: key(), lease: LeaseBreak::new(fence, BreakNote::default()) },
        Request::Advance(vec![key()]),
        Request::Release(attempt),
    ]
}

fn value(connection: &mut Connection) -> Option<Vec<u8>> {
    cmd("GET").arg("a").query(connection).ok().flatten()
}

/// An answer contains so many bytes of another program's value at most.
const LONGEST_ANSWERED: usize = 1024;

/// Sends one request, and checks the key afterwards.
fn ask(connection: &mut Connection, request: &Request) -> Verdict {
    let before = value(connection);
    let call = call_for(request, Duration::from_secs(2));
    // A server error is an error with its text, for instance if a side key has an unexpected type.
    let said: Result<Value, _> = call.by_text().query(connection);
    let after = value(connection);
    let Some(before) = before else { return Ok(()) };
    let (owner, _) = wire::read(&before);
    let foreign = matches!(owner, Owner::Foreign { .. }) && wire::family(&before).is_none();
    if foreign {
        holds(after.as_ref() == Some(&before), || {
            format!("{request:?} made {after:?} of somebody else's lock")
        })?;
    }
    let Ok(said) = said else { return Ok(()) };
    match decode(request, said).map(|reply| reply.answer) {
        Ok(Answer::Grant(leasehold_core::GrantAnswer::Granted { .. })) => {
            holds(!foreign, || "somebody else's lock was granted".into())
        }
        Ok(Answer::Inspect(state)) if wire::family(&before).is_none() => {
            let (seen, _) = wire::read(&before[..before.len().min(LONGEST_ANSWERED)]);
            let same = state.holders.first().is_some_and(|holding| holding.owner == seen);
            holds(same, || format!("{owner:?} is seen as {:?}", state.holders))
        }
        // Error texts are for foreign data: our own answers are always understood.
        _ => Ok(()),
    }
}

fn strangers_change_nothing(flavor: Flavor) {
    let server = Server::start(flavor);
    let client = redis::Client::open(server.url()).expect("a URL");
    let connection = std::cell::RefCell::new(client.get_connection().expect("it is there"));
    connection.borrow().set_read_timeout(Some(Duration::from_secs(10))).expect("a time limit");
    let keys = six();
    let modes = select(vec![Mode::Exclusive, Mode::Shared, Mode::permits(2, 4).expect("permits")]);
    let asked = vec((0..9_usize, 1..3_u128, modes), 1..8);
    hunt(1_500, (vec(left(), 1..10), asked), |(left, asked)| {
        let connection = &mut *connection.borrow_mut();
        cmd("FLUSHALL").exec(connection).map_err(|error| error.to_string())?;
        left.iter().for_each(|left| write(connection, left, &keys));
        for (nth, who, mode) in asked {
            ask(connection, &requests(who, mode)[nth])?;
        }
        // The server must still serve the next client after anything.
        cmd("PING").exec(connection).map_err(|error| format!("the server is busy for ever: {error}"))
    });
}

servers::tests! {
    fn strangers_change_nothing_of_what_a_redis_answers() = strangers_change_nothing(Flavor::Redis70);
    fn strangers_change_nothing_of_what_a_valkey_answers() = strangers_change_nothing(Flavor::Valkey91);
}
