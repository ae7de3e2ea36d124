//! A server on which histories run alongside `core::apply`.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::time::Duration;

use conformance::dump::{Dump, MemberRecord, QueueDump, ShareDump, SharesDump, Tolerance};
use conformance::oracle::{Oracle, Tickets, just_before};
use conformance::sequence::{Dice, RUN, Step, WINDOW, asked_as, heard, history, keys};
use leasehold_core::{
    Answer, Attempt, Channel, Content, Fence, GrantAnswer, HoldAnswer, Holder, Key, Owner, PushEvent,
    Request, Served, Stamp, Ticket, WaitQueue,
};
use leasehold_redis::script::{self, Call, Granted, Reply, Vouching};
use leasehold_redis::slot::{FenceKeys, MEMBER_KEY, Side, side_key, tag_of};
use leasehold_redis::wire::{self, Flag, PushMessage};
use redis::{Connection, Pipeline, RedisResult, Value, cmd};
use servers::Server;

/// A disagreement, or what prevented the comparison.
type Outcome<T> = Result<T, Box<dyn Error>>;

const STEPS: usize = 30;

/// For how many ms a member must still know its run for a batch to be enough: half a month.
const MEMBER_KEPT: i64 = 15 * 24 * 3600 * 1000;

/// More shares than one request clears, with the field for their sum.
const CLEARED_AT_ONCE: u64 = 101;

/// Published after each step: everything that was published before has arrived when this arrives.
const ENOUGH: &[u8] = b"that was all";

/// Reads everything on the server and the number of keys, and then publishes the awaited message.
const LOOK: &str = "
redis.call('PUBLISH', ARGV[1], ARGV[2])
local seen = {}
for _, key in ipairs(KEYS) do
  local kind, value = redis.call('TYPE', key).ok, ''
  if kind == 'string' then value = redis.call('GET', key) end
  if kind == 'zset' then value = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES') end
  if kind == 'hash' then value = redis.call('HGETALL', key) end
  seen[#seen + 1] = {kind, value, redis.call('PTTL', key)}
end
return {seen, redis.call('DBSIZE')}";

/// Ends shares, and optionally the marker.
const END: &str = "
for _, digits in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do
  if ARGV[2] == '' or ARGV[2] == digits then redis.call('ZADD', KEYS[2], ARGV[1], digits) end
end
local last = redis.call('ZRANGE', KEYS[2], -1, -1, 'WITHSCORES')
if last[2] then
  local kept = string.format('%.0f', tonumber(last[2]) + ARGV[4])
  redis.call('PEXPIREAT', KEYS[2], kept)
  redis.call('PEXPIREAT', KEYS[3], kept)
end
local at = redis.call('TYPE', KEYS[1]).ok == 'string' and redis.call('GET', KEYS[1]) or ''
local marker = at == 'lh1 shared' or string.find(at, '^lh1 permits [1-9]%d?$')
if marker and ARGV[3] == '1' then redis.call('DEL', KEYS[1]) end";

/// Scripts that are run instead of others: the text of the other, and the digest of the one.
type Instead = Vec<(&'static str, String)>;

/// A server on which scripts are run one call at a time.
pub(crate) struct Subject {
    pub(crate) connection: Connection,
    listener: Connection,
    look: redis::Script,
    instead: Instead,
    /// True if batches are asked first; otherwise, the scripts of single requests handle all.
    pub(crate) batches: bool,
    /// True if it is asked as a member of a quorum, where each tag has its own last fence.
    is_member: bool,
    /// The end of shares that a step ended, in ms.
    ended: u64,
    /// Keys granted by a batch and not shared since; it leaves older shares there, which do not count.
    void: BTreeSet<Key>,
}

impl Subject {
    pub(crate) fn on(server: &Server) -> Self {
        let client = redis::Client::open(server.url()).unwrap();
        let mut listener = client.get_connection().unwrap();
        let mut subscribe = cmd("SUBSCRIBE");
        let channels = listened();
        for channel in &channels {
            subscribe.arg(channel.as_bytes());
        }
        listener.send_packed_command(&subscribe.get_packed_command()).unwrap();
        for _ in &channels {
            listener.recv_response().unwrap();
        }
        let look = redis::Script::new(LOOK);
        Self {
            connection: client.get_connection().unwrap(),
            listener,
            look,
            instead: Vec::new(),
            batches: true,
            is_member: false,
            ended: 0,
            void: BTreeSet::new(),
        }
    }

    /// Runs the second text of each pair instead of the first from now on; an error if it is no script.
    /// One that never ends is an error when it is run: the server is told to stop it.
    pub(crate) fn run_instead(&mut self, texts: Vec<(&'static str, String)>) -> RedisResult<()> {
        let load = |(original, text): (&'static str, String)| {
            Ok((original, cmd("SCRIPT").arg("LOAD").arg(text).query(&mut self.connection)?))
        };
        self.instead = texts.into_iter().map(load).collect::<RedisResult<_>>()?;
        Ok(())
    }

    pub(crate) fn set_read_timeout(&self, limit: Duration) {
        self.connection.set_read_timeout(Some(limit)).unwrap();
        self.listener.set_read_timeout(Some(limit)).unwrap();
    }

    /// Runs one history alongside the oracle, up to the first difference.
    pub(crate) fn agrees(&mut self, seed: u64) -> Result<(), String> {
        let wall = crate::postgres::now();
        let tolerance = Tolerance { wall };
        let (mut oracle, mut tickets) = (Oracle::new(wall), Tickets::default());
        let mut dice = Dice::new(seed);
        self.ended = just_before(wall).as_micros() / 1000;
        cmd("FLUSHALL").exec(&mut self.connection).map_err(|error| error.to_string())?;
        self.void.clear();
        self.is_member = seed.is_multiple_of(3);
        for (n, step) in history(&mut dice, STEPS, wall).into_iter().enumerate() {
            let step = asked_as(step, self.is_member);
            let agrees = self.agrees_on(&step, &mut oracle, &mut tickets, tolerance);
            agrees.map_err(|what| format!("step {n}, {step:?}: {what}"))?;
        }
        Ok(())
    }

    fn agrees_on(
        &mut self,
        step: &Step,
        oracle: &mut Oracle,
        tickets: &mut Tickets,
        tolerance: Tolerance,
    ) -> Outcome<()> {
        let (served, holders): (Vec<_>, Vec<_>) = oracle.take(step).into_iter().unzip();
        let (right, mut told) = right(served, tolerance);
        let mut given = Vec::new();
        for request in tickets.requests(step) {
            let reply = self.ask(&request)?;
            tickets.note(&request, &reply.answer);
            let (mut answer, nth) = (tolerance.answer(reply.answer), given.len());
            tolerance.name_alike(&mut answer, &right[nth].answer, &holders[nth]);
            given.push(Reply { answer, ..reply });
        }
        self.meddle(step)?;
        if given != right {
            return Err(format!("answered {given:?}, not {right:?}").into());
        }
        let left = self.dump()?;
        if let Some(key) = plain_with_a_line(&left) {
            return Err(format!("{key} says that nobody waits, and has a line: {left:?}").into());
        }
        let mut pushes = self.pushes()?;
        pushes.iter_mut().for_each(|(_, told)| told.event = tolerance.event(told.event));
        told.retain(|(channel, _)| listened().contains(channel));
        if pushes != told {
            return Err(format!("told {pushes:?}, not {told:?}").into());
        }
        let (left, right) = (tolerance.dump(left), tolerance.dump(oracle.dump()));
        if left != right {
            return Err(format!("left {left:?}, not {right:?}").into());
        }
        Ok(())
    }

    /// Asks in a batch first, as a client does, and singly if the batch declines.
    fn ask(&mut self, request: &Request) -> Outcome<Reply> {
        let Some((call, attempt)) = in_batch(request).filter(|_| self.batches) else {
            return self.ask_singly(request);
        };
        // So many void shares are deleted in several requests; a batch deletes none, asks for no other
        // request, and does not see that one was never claimed: the next other request does, later.
        let shares: Vec<Vec<u8>> = cmd("HVALS")
            .arg(side_key(Side::Shares, attempt.claim.first_key()))
            .query(&mut self.connection)?;
        let is_unclaimed = |share: &Vec<u8>| share.split(|byte| *byte == b' ').nth(2) != Some(&b"-"[..]);
        if shares.len() as u64 > CLEARED_AT_ONCE || shares.iter().any(is_unclaimed) {
            return self.ask_singly(request);
        }
        let must_serve = self.is_simple(request, attempt)?;
        let value = self.say(&call)?;
        let answer = match request {
            Request::Grant { .. } => {
                let served = script::read_batch(&value, &[attempt], 0, attempt.proposal.is_some())?;
                match served.granted {
                    Granted::TooLate { now } => Some(Answer::Grant(GrantAnswer::TooLate { now })),
                    Granted::Served { fences, .. } => {
                        fences[0].map(|fence| Answer::Grant(GrantAnswer::Granted { fence }))
                    }
                    Granted::Nothing => None,
                }
            }
            Request::Renew(_) => script::read_done(&value, 1)?[0].then_some(Answer::Renew(HoldAnswer::Done)),
            _ => {
                let served = script::read_batch::<Attempt>(&value, &[], 1, false)?;
                served.released[0].then_some(Answer::Release(HoldAnswer::Done))
            }
        };
        match answer {
            Some(answer) => {
                if matches!(answer, Answer::Grant(GrantAnswer::Granted { .. })) {
                    self.void.insert(attempt.claim.first_key().clone());
                }
                Ok(Reply { answer, unfinished: Vec::new() })
            }
            None if must_serve => Err("a batch left what it should have served".into()),
            None => self.ask_singly(request),
        }
    }

    /// True if a batch must serve the request itself: no answer shows that declining costs a command.
    fn is_simple(&mut self, request: &Request, attempt: &Attempt) -> RedisResult<bool> {
        let key = attempt.claim.first_key();
        let (fence, waiters) = (self.fence_key(key), side_key(Side::Waiters, key));
        let mut look = redis::pipe();
        look.cmd("MGET").arg(key.as_bytes()).arg(MEMBER_KEY);
        if self.is_member {
            look.cmd("HGET").arg(&fence).arg(tag_of(key));
        } else {
            look.cmd("GET").arg(&fence);
        }
        look.cmd("EXISTS").arg(key.as_bytes()).arg(waiters);
        look.cmd("PTTL").arg(MEMBER_KEY);
        type Text = Option<Vec<u8>>;
        let ([value, run], fence, there, kept): ([Text; 2], Text, u64, i64) =
            look.query(&mut self.connection)?;
        let is_vouched = run.as_deref() == Some(RUN.as_bytes()) && kept > MEMBER_KEPT;
        let is_vouched = attempt.proposal.is_none() || is_vouched;
        let is_plain = is_plain(value.as_deref(), attempt);
        let follows = |last: Vec<u8>| String::from_utf8(last).ok()?.parse().ok();
        Ok(match request {
            Request::Release(_) => is_plain,
            Request::Renew(_) => is_vouched && is_plain,
            _ => {
                let follows = |last| follows(last).is_some_and(|last: u64| last < Fence::MAX.get());
                is_vouched && there == 0 && fence.is_none_or(follows)
            }
        })
    }

    fn ask_singly(&mut self, request: &Request) -> Outcome<Reply> {
        let call = if self.is_member {
            script::call_at_member(request, WINDOW, Some(RUN))
        } else {
            script::call_for(request, WINDOW)
        };
        Ok(script::decode(request, self.say(&call)?)?)
    }

    fn fence_key(&self, key: &Key) -> Vec<u8> {
        FenceKeys { at_member: self.is_member, by_slot: false }.name(key)
    }

    pub(crate) fn say(&mut self, call: &Call) -> RedisResult<Value> {
        let text = call.script().text();
        if let Some((_, sha)) = self.instead.iter().find(|(original, _)| *original == text) {
            let mut command = cmd("EVALSHA");
            command.arg(sha).arg(call.keys().len());
            for word in call.keys().chain(call.args()) {
                command.arg(word);
            }
            return command.query(&mut self.connection);
        }
        let said: RedisResult<Value> = call.by_sha().query(&mut self.connection);
        match &said {
            Err(error) if error.code() == Some("NOSCRIPT") => call.by_text().query(&mut self.connection),
            _ => said,
        }
    }

    fn meddle(&mut self, step: &Step) -> RedisResult<()> {
        let mut strangers = Pipeline::new();
        // A marker of a stranger would make void shares count again.
        if let Step::Set(key, ..) = step
            && self.void.remove(key)
        {
            strangers.cmd("DEL").arg(side_key(Side::Holders, key)).arg(side_key(Side::Shares, key));
        }
        match step {
            Step::Ask(_) | Step::Return(_) | Step::Break(_) | Step::Crowd(..) => return Ok(()),
            Step::Set(key, value, None) => strangers.cmd("SET").arg(key.as_bytes()).arg(value),
            Step::Set(key, value, Some(ttl)) => {
                strangers.cmd("SET").arg(key.as_bytes()).arg(value).arg("PX").arg(ms(*ttl))
            }
            Step::MakeList(key) => {
                strangers.cmd("DEL").arg(key.as_bytes()).cmd("RPUSH").arg(key.as_bytes()).arg("x")
            }
            Step::Delete(key) => strangers.cmd("DEL").arg(key.as_bytes()),
            Step::Expire(key) => strangers.cmd("PEXPIREAT").arg(key.as_bytes()).arg(1),
            Step::ForgetFence(key) => strangers.cmd("DEL").arg(self.fence_key(key)),
            Step::SetFence(key, number, ttl) if self.is_member => {
                let fences = self.fence_key(key);
                strangers.cmd("HSET").arg(&fences).arg(tag_of(key)).arg(*number);
                strangers.cmd("PEXPIRE").arg(fences).arg(ms(*ttl))
            }
            Step::SetFence(key, number, ttl) => {
                strangers.cmd("SET").arg(self.fence_key(key)).arg(*number).arg("PX").arg(ms(*ttl))
            }
            Step::ForgetQueue(key) => {
                strangers.cmd("DEL").arg(side_key(Side::Queue, key)).arg(side_key(Side::Waiters, key))
            }
            Step::EndShares(key, whose, marker) => strangers
                .cmd("EVAL")
                .arg(END)
                .arg(3)
                .arg(key.as_bytes())
                .arg(side_key(Side::Holders, key))
                .arg(side_key(Side::Shares, key))
                .arg(self.ended)
                .arg(whose.map_or_else(String::new, Holder::digits))
                .arg(u8::from(*marker))
                .arg(ms(WaitQueue::KEPT_FOR)),
            Step::ForgetShares(key) => {
                strangers.cmd("DEL").arg(side_key(Side::Holders, key)).arg(side_key(Side::Shares, key))
            }
            Step::Vouch(value, kept) => {
                strangers.cmd("SET").arg(MEMBER_KEY).arg(value).arg("PX").arg(ms(*kept))
            }
            Step::Unvouch => strangers.cmd("DEL").arg(MEMBER_KEY),
        };
        strangers.exec(&mut self.connection)
    }

    /// The push messages since the last call, up to the one that `dump` publishes.
    fn pushes(&mut self) -> Outcome<Vec<(Channel, PushMessage)>> {
        let mut pushes = Vec::new();
        loop {
            let heard = self.listener.recv_response()?;
            let (_, channel, payload): (String, Vec<u8>, Vec<u8>) = redis::from_redis_value(heard)?;
            if payload == ENOUGH {
                return Ok(pushes);
            }
            let told = wire::read_push(&payload)
                .ok_or_else(|| format!("{} was published", payload.escape_ascii()))?;
            pushes.push((Channel::new(channel), told));
        }
    }

    /// Reads and drops what was published until now.
    pub(crate) fn forget_pushes(&mut self) {
        if self.publish_enough().is_ok() {
            // A message that a stranger published is not a push, and ends the reading.
            while self.pushes().is_err_and(|why| why.to_string().ends_with("was published")) {}
        }
    }

    /// The push messages since the last time, up to now.
    pub(crate) fn pushes_until_now(&mut self) -> Outcome<Vec<(Channel, PushMessage)>> {
        self.publish_enough()?;
        self.pushes()
    }

    fn publish_enough(&mut self) -> RedisResult<()> {
        let mut publish = cmd("PUBLISH");
        publish.arg(heard().remove(0).as_bytes()).arg(ENOUGH).exec(&mut self.connection)
    }

    /// Everything on the server; an error if a key is unknown.
    fn dump(&mut self) -> Outcome<Dump> {
        let sides = [Side::Queue, Side::Waiters, Side::Holders, Side::Shares, Side::Mark, Side::Break];
        let mut look = self.look.arg(heard().remove(0).as_bytes());
        look.arg(ENOUGH);
        for key in keys() {
            look.key(key.as_bytes()).key(self.fence_key(&key));
            for side in sides {
                look.key(side_key(side, &key));
            }
        }
        look.key(MEMBER_KEY);
        let (mut seen, size): (Vec<(String, Value, i64)>, usize) = look.invoke(&mut self.connection)?;
        let known = seen.iter().filter(|(kind, ..)| kind != "none").count();
        if size != known {
            return Err(format!("{size} entries, {known} known").into());
        }
        let now = crate::postgres::now().as_micros() / 1000;
        let mut dump = Dump::default();
        let (kind, value, pttl) = seen.pop().expect("the member key is looked at last");
        if kind != "none" {
            let value: String = redis::from_redis_value(value)?;
            dump.member_record = Some(MemberRecord::read(&value, left(pttl)));
        }
        for (key, seen) in keys().into_iter().zip(seen.chunks(8)) {
            let [(kind, value, pttl), fence, line, waiters, holders, shares, mark, broken] = seen else {
                unreachable!("eight of each")
            };
            if mark.0 != "none" {
                let value = redis::from_redis_value(mark.1.clone())?;
                dump.marks.insert(key.clone(), (value, left(mark.2)));
            }
            if broken.0 != "none" {
                let value: Vec<u8> = redis::from_redis_value(broken.1.clone())?;
                let record = wire::read_break(&key, &value).ok_or("the record of a break is none")?;
                dump.breaks.insert(key.clone(), (record, left(broken.2)));
            }
            if kind != "none" {
                dump.locks.insert(key.clone(), (content(kind, value), left(*pttl)));
            }
            if fence.0 != "none" {
                let number = match &fence.1 {
                    Value::Array(fields) => {
                        let of = |pair: &&[Value]| pair[0] == Value::BulkString(tag_of(&key).into());
                        fields.chunks_exact(2).find(of).ok_or("the fence of another key")?[1].clone()
                    }
                    number => number.clone(),
                };
                let number = redis::from_redis_value(number)?;
                dump.fences.insert(key.clone(), (number, left(fence.2)));
            }
            if (&*line.0, &*waiters.0) != ("none", "none") {
                dump.queues.insert(key.clone(), queue_dump(line, waiters)?);
            }
            // What a batch leaves next to a lease is ignored until there is a marker.
            if let Some((Content::Marker(_), _)) = dump.locks.get(&key) {
                self.void.remove(&key);
            }
            let has_shares = (&*holders.0, &*shares.0) != ("none", "none");
            if has_shares && !self.void.contains(&key) {
                dump.shares.insert(key, shares_dump(holders, shares, now)?);
            }
        }
        Ok(dump)
    }
}

/// The batch of one in which a client sends this request, if it does.
fn in_batch(request: &Request) -> Option<(Call, &Attempt)> {
    let (Request::Grant { attempt, .. } | Request::Renew(attempt) | Request::Release(attempt)) = request
    else {
        return None;
    };
    attempt.claim.exclusive_key()?;
    let vouching = attempt.proposal.map(|proposal| Vouching { run: Some(RUN), longest: proposal.max_ttl });
    let call = match request {
        Request::Grant { not_after, .. } => {
            let not_after = not_after.unwrap_or(Stamp::from_micros(Fence::MAX.get()));
            script::batch_call(&[attempt], &[], not_after, vouching, false)
        }
        Request::Renew(_) => script::renew_batch(&[attempt], vouching, false),
        _ => script::batch_call(&[], &[attempt], Stamp::from_micros(0), None, false),
    };
    Some((call, attempt))
}

/// The value that a grant with this fence writes.
pub(crate) fn plain(attempt: &Attempt, fence: u64) -> Vec<u8> {
    wire::value_of(Flag::Plain, attempt.holder, Fence::new(fence), attempt.label.as_ref())
}

fn is_plain(value: Option<&[u8]>, attempt: &Attempt) -> bool {
    value.is_some_and(|value| value.starts_with(&wire::beginning_of(Flag::Plain, attempt.holder)))
}

/// A key with a queue and a plain value. There must be none: a native release does not see the queue.
fn plain_with_a_line(dump: &Dump) -> Option<&Key> {
    let is_plain = |content: &Content| matches!(content, Content::Lease { awaited: false, .. });
    let mut plain = dump.locks.iter().filter(|(_, (content, _))| is_plain(content));
    plain.find_map(|(key, _)| dump.queues.contains_key(key).then_some(key))
}

/// The channel on which holders are notified of breaks.
fn broken() -> Channel {
    Channel::new(wire::BROKEN)
}

fn listened() -> Vec<Channel> {
    [heard(), vec![broken()]].concat()
}

type Seen = (String, Value, i64);

fn content(kind: &str, value: &Value) -> Content {
    let Value::BulkString(value) = value else { panic!("{value:?}") };
    match wire::read(value) {
        _ if kind != "string" => Content::NotALock,
        (Owner::Holder { holder, label }, fence) => {
            Content::Lease { holder, fence, label, awaited: wire::flag(value) == Some(Flag::Awaited) }
        }
        _ => wire::family(value).map_or_else(|| Content::Foreign(value.as_slice().into()), Content::Marker),
    }
}

fn shares_dump((_, ends, pttl): &Seen, (_, fields, shares_pttl): &Seen, now: u64) -> Outcome<SharesDump> {
    let ends: Vec<(String, u64)> = redis::from_redis_value(ends.clone())?;
    let mut fields: BTreeMap<String, String> = redis::from_redis_value(fields.clone())?;
    let mut dump = SharesDump { left: left(*shares_pttl), ..SharesDump::default() };
    let sum = fields.remove("n").ok_or("shares have no sum")?;
    for (digits, ends) in ends {
        let record = fields.remove(&digits).ok_or("a share has no record")?;
        let [weight, fence, rest] = record.splitn(3, ' ').collect::<Vec<_>>()[..] else {
            return Err(format!("shares hold {record:?}").into());
        };
        let holder = Holder::from_digits(digits.as_bytes()).ok_or(digits)?;
        let share = ShareDump {
            weight: weight.parse()?,
            fence: if fence == "-" { None } else { Some(fence.parse()?) },
            rest: rest.into(),
            left: Duration::from_millis(ends.saturating_sub(now)),
        };
        dump.shares.insert(holder, share);
    }
    let weights: u32 = dump.shares.values().map(|share| share.weight).sum();
    if !fields.is_empty() || weights.to_string() != sum || pttl.abs_diff(*shares_pttl) > 50 {
        let wrong =
            format!("{fields:?} has no end, or {weights} is not {sum}, or {pttl} ms not {shares_pttl} ms");
        return Err(wrong.into());
    }
    Ok(dump)
}

fn queue_dump((kind, order, pttl): &Seen, (_, fields, waiters_pttl): &Seen) -> Outcome<QueueDump> {
    let none = kind == "none";
    let order: Vec<(String, u64)> = if none { Vec::new() } else { redis::from_redis_value(order.clone())? };
    let order = order.into_iter().map(|(digits, ticket)| {
        let holder = Holder::from_digits(digits.as_bytes()).ok_or(digits)?;
        Ok::<_, String>((Ticket::new(ticket), holder))
    });
    let fields: BTreeMap<String, String> = redis::from_redis_value(fields.clone())?;
    if left(*waiters_pttl).is_none_or(|left| left > WaitQueue::KEPT_FOR) {
        return Err(format!("the waiters last {waiters_pttl} ms").into());
    }
    // Older servers' clocks advance during a script.
    if !none && pttl.abs_diff(*waiters_pttl) > 1000 {
        return Err(format!("the line lasts {pttl} ms, and the waiters {waiters_pttl} ms").into());
    }
    Ok(QueueDump { order: order.collect::<Result<_, _>>()?, fields, left: left(*waiters_pttl) })
}

/// The expected answers and push messages; of messages sent at once, the last comes first.
fn right(served: Vec<Served>, tolerance: Tolerance) -> (Vec<Reply>, Vec<(Channel, PushMessage)>) {
    let (mut replies, mut told) = (Vec::new(), Vec::new());
    for Served { answer, pushes, unfinished } in served {
        let answer: Answer = tolerance.answer(answer);
        replies.push(Reply { answer, unfinished });
        told.extend(pushes.into_iter().rev().filter_map(|push| {
            let event = tolerance.event(push.event);
            let to = if event == PushEvent::Broken { Some(broken()) } else { push.to };
            Some((to?, PushMessage { holder: push.holder, event, nonce: push.nonce }))
        }));
    }
    (replies, told)
}

fn left(pttl: i64) -> Option<Duration> {
    u64::try_from(pttl).ok().map(Duration::from_millis)
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap()
}
