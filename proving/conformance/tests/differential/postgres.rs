//! The store on PostgreSQL compared with `core::apply`. It applies core's functions itself, but to
//! records that it loads in part, and saves by difference.

mod cases;

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use conformance::dump::{Dump, MemberRecord, QueueDump, SharesDump, Tolerance};
use conformance::oracle::{Oracle, Tickets, just_before};
use conformance::sequence::{Dice, RUN, Step, WINDOW, contended, heard, history};
use leasehold_core::{
    Answer, BreakNote, BreakRecord, Channel, Content, Family, Fence, Holder, Key, Label, Mark, Mode, Nonce,
    Push, QueueEntry, Request, Served, Share, Shares, Stamp, Ticket, Ttl, WaitQueue,
};
use leasehold_redis::wire::{channel_of, family, mark_of};
use servers::Postgres;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls, Row};

const STEPS: usize = 30;

/// A step of many requests is served in batches of this size.
const BATCH: usize = 40;

#[test]
fn postgres_agrees_with_the_one_semantics() {
    agrees(&Postgres::programs().expect("run `cargo xtask servers`"), 0..40);
}

#[test]
fn postgres_agrees_in_many_histories() {
    agrees(&Postgres::programs().expect("run `cargo xtask servers`"), 40..600);
}

#[test]
fn the_newest_postgres_agrees_in_many_histories() {
    let newest = Postgres::all_programs().into_values().next_back();
    agrees(&newest.expect("run `cargo xtask servers`"), 600..1100);
}

pub(crate) fn now() -> Stamp {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    Stamp::from_micros(u64::try_from(since_epoch.as_micros()).unwrap())
}

fn agrees(programs: &std::path::Path, seeds: std::ops::Range<u64>) {
    let server = Postgres::of(programs, &[]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        leasehold::postgres::init(&server.url()).await.unwrap();
        let tables = Tables::of(&server).await;
        for seed in seeds {
            if let Err(found) = tables.agree(seed).await {
                panic!("history {seed}: {found}");
            }
        }
    });
}

async fn connect(server: &Postgres) -> Client {
    let (client, connection) = tokio_postgres::connect(&server.config(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// A database on which histories run.
pub(crate) struct Tables {
    client: Client,
    timeline: String,
    /// Listens on the channels that are heard, as a process does: by an advisory lock.
    _ears: Client,
}

impl Tables {
    pub(crate) async fn of(server: &Postgres) -> Self {
        let (client, ears) = (connect(server).await, connect(server).await);
        for channel in heard() {
            ears.execute("SELECT pg_advisory_lock($1)", &[&number_of(&channel)]).await.unwrap();
        }
        let timeline = "SELECT value FROM leasehold.meta WHERE name = 'timeline'";
        let timeline = client.query_one(timeline, &[]).await.unwrap().get(0);
        Self { client, timeline, _ears: ears }
    }

    /// Runs one history alongside the oracle, up to the first difference.
    pub(crate) async fn agree(&self, seed: u64) -> Result<(), String> {
        let wall = now();
        let mut dice = Dice::new(seed);
        // Every other history is of the requests for which there are quick functions.
        let steps = match seed % 2 {
            0 => history(&mut dice, STEPS, wall),
            _ => contended(&mut dice, 3 * STEPS, wall),
        };
        self.agree_on(steps, wall).await
    }

    async fn agree_on(&self, steps: Vec<Step>, wall: Stamp) -> Result<(), String> {
        let tolerance = Tolerance { wall };
        let (mut oracle, mut tickets) = (Oracle::new(wall).with_one_fence(), Tickets::default());
        self.clear().await;
        for (n, step) in steps.into_iter().enumerate() {
            if has_no_place(&step) {
                continue;
            }
            let place = |what: String| format!("step {n}, {step:?}: {what}");
            let (right, holders): (Vec<Served>, Vec<_>) = oracle.take(&step).into_iter().unzip();
            let requests = tickets.requests(&step);
            let sent: Vec<_> = requests.iter().cloned().map(with_our_channel).collect();
            let mut given = Vec::new();
            for batch in sent.chunks(if are_alive(&requests) { BATCH } else { 1 }) {
                let batch: Vec<_> = batch.iter().collect();
                let served = leasehold_postgres::serve(&self.client, "leasehold", &batch, WINDOW).await;
                given.extend(served.map_err(place)?);
            }
            self.meddle(&step, just_before(wall)).await;
            for (nth, mut served) in given.into_iter().enumerate() {
                tickets.note(&requests[nth], &served.answer);
                served = alike(served, tolerance);
                let right = alike(right[nth].clone(), tolerance);
                tolerance.name_alike(&mut served.answer, &right.answer, &holders[nth]);
                served.pushes.iter_mut().for_each(|push| push.to = push.to.as_ref().map(their_channel));
                let (said, meant) = (parts(served), parts(right));
                if said != meant {
                    return Err(place(format!("request {nth} gave {said:?}, not {meant:?}")));
                }
            }
            let left = tolerance.dump(self.dump().await.map_err(place)?);
            // A member records its quarantine differently than on Redis: only answers are compared.
            let right = Dump { member_record: None, ..tolerance.dump(oracle.dump()) };
            if left != right {
                return Err(place(format!("left {left:?}, not {right:?}")));
            }
        }
        Ok(())
    }

    /// Runs statements, outside of any transaction.
    pub(crate) async fn execute(&self, sql: &str) -> Result<(), tokio_postgres::Error> {
        self.client.batch_execute(sql).await
    }

    async fn clear(&self) {
        let tables = ["lease", "share", "waiter", "unresponsive", "mark", "broken"];
        let truncate = format!("TRUNCATE {}", tables.map(|table| format!("leasehold.{table}")).join(", "));
        self.execute(&truncate).await.unwrap();
        self.meddle(&Step::Unvouch, Stamp::from_micros(0)).await;
    }

    /// A write of another program.
    async fn meddle(&self, step: &Step, ended: Stamp) {
        let now = "leasehold.now_micros()";
        let empty = "holder = NULL, label = NULL, ends = NULL, awaited = NULL, marker = NULL";
        match step {
            Step::Set(key, value, Some(lasts)) => {
                let marker = family(value).expect("a marker").to_string();
                let (key, lasts) = (key.as_bytes(), micros(*lasts));
                let sql = format!(
                    "INSERT INTO leasehold.lease AS l (key, marker, ends) VALUES ($1, $2, {now} + $3) ON CONFLICT (key) \
                     DO UPDATE SET holder = NULL, label = NULL, awaited = NULL, marker = $2, ends = {now} + $3"
                );
                self.write(&sql, &[&key, &marker, &lasts]).await;
            }
            Step::Delete(key) => {
                let sql = format!("UPDATE leasehold.lease SET {empty} WHERE key = $1");
                self.write(&sql, &[&key.as_bytes()]).await;
            }
            Step::Expire(key) => {
                let sql = "UPDATE leasehold.lease SET ends = 1 WHERE key = $1 AND ends IS NOT NULL";
                self.write(sql, &[&key.as_bytes()]).await;
            }
            Step::ForgetFence(key) => {
                let sql = "UPDATE leasehold.lease SET fence = NULL, fence_ends = NULL WHERE key = $1";
                self.write(sql, &[&key.as_bytes()]).await;
            }
            Step::SetFence(key, number, lasts) => {
                let (key, lasts) = (key.as_bytes(), micros(*lasts));
                let number = i64::try_from(*number).unwrap();
                let sql = format!(
                    "INSERT INTO leasehold.lease (key, fence, fence_ends) VALUES ($1, $2, {now} + $3) ON CONFLICT (key) \
                     DO UPDATE SET fence = $2, fence_ends = {now} + $3"
                );
                self.write(&sql, &[&key, &number, &lasts]).await;
            }
            // It has ended, so its leftovers must not become valid again.
            Step::ForgetQueue(key) => {
                let sql = "UPDATE leasehold.lease SET queue_ends = 1 WHERE key = $1 AND waiters IS NOT NULL";
                self.write(sql, &[&key.as_bytes()]).await;
            }
            Step::EndShares(key, whose, marker) => {
                let (key, ended) = (key.as_bytes(), i64::try_from(ended.as_micros()).unwrap());
                let whose = whose.map(|holder| holder.bits().to_be_bytes().to_vec());
                let sql = "UPDATE leasehold.share SET ends = $2 WHERE key = $1 AND ($3::bytea IS NULL OR holder = $3)";
                self.write(sql, &[&key, &ended, &whose]).await;
                if *marker {
                    let sql = format!(
                        "UPDATE leasehold.lease SET {empty} WHERE key = $1 AND marker IS NOT NULL AND ends > {now}"
                    );
                    self.write(&sql, &[&key]).await;
                }
            }
            Step::ForgetShares(key) => {
                self.write("DELETE FROM leasehold.share WHERE key = $1", &[&key.as_bytes()]).await;
            }
            Step::Vouch(value, _) => {
                let MemberRecord { run, since, .. } = MemberRecord::read(value, None);
                let timeline = if run == RUN { self.timeline.clone() } else { run };
                let since = since.unwrap_or(0).to_string();
                let sql = "INSERT INTO leasehold.meta (name, value) VALUES ('timeline', $1), ('voided', $2) \
                     ON CONFLICT (name) DO UPDATE SET value = excluded.value";
                self.write(sql, &[&timeline, &since]).await;
            }
            Step::Unvouch => {
                self.write("DELETE FROM leasehold.meta WHERE name IN ('voided', 'timeline')", &[]).await;
            }
            _ => {}
        }
    }

    async fn write(&self, sql: &str, parameters: &[&(dyn ToSql + Sync)]) {
        self.client.execute(sql, parameters).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    }

    async fn rows(&self, table: &str, order: &str) -> Result<Vec<Row>, String> {
        let sql = format!("SELECT leasehold.now_micros() AS now, * FROM leasehold.{table} ORDER BY {order}");
        self.client.query(&sql, &[]).await.map_err(|error| format!("{error:?}"))
    }

    /// All records, and whether the tables contradict each other.
    async fn dump(&self) -> Result<Dump, String> {
        let (leases, waiters, unresponsive, shares, marks, broken) = tokio::try_join!(
            self.rows("lease", "key"),
            self.rows("waiter", "key, ticket, holder"),
            self.rows("unresponsive", "key"),
            self.rows("share", "key"),
            self.rows("mark", "key"),
            self.rows("broken", "key"),
        )?;
        let (mut dump, mut lines, mut counts) = (Dump::default(), BTreeMap::new(), BTreeMap::new());
        let left = |row: &Row, column: &str| {
            let left = number(row, column)? - row.get::<_, i64>("now");
            u64::try_from(left).ok().map(Duration::from_micros)
        };
        for row in &leases {
            let key = key(row);
            let content = match (row.get::<_, Option<&[u8]>>("holder"), row.get::<_, Option<&str>>("marker"))
            {
                (Some(id), None) => {
                    let (holder, awaited) = (holder(id), row.get("awaited"));
                    let (fence, label) = (fence(row), label(row, "label"));
                    Some(Content::Lease { holder, fence, label, awaited })
                }
                (None, Some(marker)) => Some(Content::Marker(Family::read(marker).ok_or("a marker")?)),
                (None, None) => None,
                both => return Err(format!("a row is held by {both:?}")),
            };
            if let Some((content, left)) = content.zip(left(row, "ends")) {
                dump.locks.insert(key.clone(), (content, Some(left)));
            }
            if let Some(fence) = number(row, "fence") {
                let left = left(row, "fence_ends").unwrap_or_default();
                dump.fences.insert(key.clone(), (fence.unsigned_abs(), Some(left)));
            }
            if let Some(count) = number(row, "waiters") {
                let mut line = WaitQueue::default();
                if let Some(id) = row.get::<_, Option<&[u8]>>("handed") {
                    line.hand_to(holder(id), number(row, "handed_on").map(channel));
                }
                if let Some(ends) = number(row, "queue_ends") {
                    line.keep_until(stamp(ends));
                }
                counts.insert(key.clone(), count.unsigned_abs());
                lines.insert(key, line);
            }
        }
        for row in &waiters {
            let line = lines.get_mut(&key(row)).ok_or("a waiter has no queue")?;
            let ttl = Ttl::new(Duration::from_millis(row.get::<_, i64>("ttl").unsigned_abs())).unwrap();
            let entry = QueueEntry::new(
                holder(row.get("holder")),
                label(row, "label"),
                Mode::read(row.get("mode")).ok_or("a mode")?,
                ttl,
                number(row, "channel").map(channel),
                row.get("wants_more"),
            );
            let nonce = row.get::<_, Option<&[u8]>>("nonce").and_then(Nonce::from_digits);
            let ticket = Ticket::new(row.get::<_, i64>("ticket").unsigned_abs());
            line.join(entry.with_nonce(nonce), Some(ticket), stamp(0));
        }
        for row in &unresponsive {
            let line = lines.get_mut(&key(row)).ok_or("a channel has no queue")?;
            line.set_unresponsive(channel(row.get("channel")));
        }
        let now = leases.first().map_or(0, |row| row.get::<_, i64>("now"));
        let last = |line: &WaitQueue| line.ends().is_none_or(|ends| stamp(now) < ends);
        for (key, line) in lines.into_iter().filter(|(_, line)| last(line)) {
            let (count, there) = (counts[&key], line.waiters().len());
            if count != there as u64 {
                return Err(format!("{key}: {count} waiters are counted, and {there} are there"));
            }
            dump.queues.insert(key, QueueDump::of(&line, stamp(now)));
        }
        let mut shared: BTreeMap<Key, Shares> = BTreeMap::new();
        for row in &shares {
            let weight = row.get::<_, i32>("weight").unsigned_abs();
            let share = Share::new(weight, fence(row), label(row, "label"), stamp(row.get("ends")));
            let share = share.unclaimed_at(number(row, "unclaimed").map(channel));
            shared.entry(key(row)).or_default().put(holder(row.get("holder")), share);
        }
        dump.shares =
            shared.iter().map(|(key, shares)| (key.clone(), SharesDump::of(shares, stamp(now)))).collect();
        for row in &marks {
            let fence = fence(row).ok_or("a mark has no fence")?;
            let mark = Mark::new(stamp(row.get("at")), fence, label(row, "label"));
            let mark = match number(row, "period") {
                Some(period) => mark.every(Duration::from_micros(period.unsigned_abs())),
                None => mark,
            };
            dump.marks.insert(key(row), (mark_of(&mark), left(row, "ends")));
        }
        for row in &broken {
            let note = BreakNote { by: label(row, "broken_by"), reason: label(row, "reason") };
            let fence = fence(row).ok_or("a break has no fence")?;
            let record = BreakRecord::new(key(row), stamp(row.get("at")), fence, label(row, "held_by"), note);
            dump.breaks.insert(key(row), (record, left(row, "ends")));
        }
        Ok(dump)
    }
}

/// Contents that a table cannot have: values that are no locks, and markers without an end.
fn has_no_place(step: &Step) -> bool {
    match step {
        Step::Set(_, value, lasts) => lasts.is_none() || family(value).is_none(),
        Step::MakeList(_) => true,
        _ => false,
    }
}

fn alike(mut served: Served, tolerance: Tolerance) -> Served {
    served.answer = tolerance.answer(served.answer);
    served.pushes.iter_mut().for_each(|push| push.event = tolerance.event(push.event));
    served
}

fn parts(served: Served) -> (Answer, Vec<Push>, Vec<Key>) {
    (served.answer, served.pushes, served.unfinished)
}

/// A batch comes from one process, which listens if it waits: the store does not ask.
fn are_alive(requests: &[Request]) -> bool {
    requests.iter().all(|request| match request {
        Request::Grant { wait: Some(wait), .. } => {
            wait.channel.as_ref().is_some_and(|it| heard().contains(it) || it.is_silent())
        }
        _ => true,
    })
}

/// The histories' channels have names of Redis.
fn number_of(named: &Channel) -> i64 {
    (1..=4).find(|number| channel(*number) == *named).expect("a channel of the histories")
}

/// The channel of a number, by the name that the histories give it.
fn channel(number: i64) -> Channel {
    if number < 0 {
        Channel::silent(number.cast_unsigned())
    } else {
        channel_of(number.unsigned_abs().into())
    }
}

fn with_our_channel(mut request: Request) -> Request {
    if let Request::Grant { wait: Some(wait), .. } = &mut request {
        wait.channel = wait.channel.take().map(|channel| {
            if channel.is_silent() { channel } else { Channel::new(format!("{:016x}", number_of(&channel))) }
        });
    }
    request
}

fn their_channel(ours: &Channel) -> Channel {
    let digits = std::str::from_utf8(ours.as_bytes()).unwrap();
    channel(i64::from_str_radix(digits, 16).unwrap())
}

fn key(row: &Row) -> Key {
    Key::new(row.get::<_, &[u8]>("key")).unwrap()
}

fn holder(id: &[u8]) -> Holder {
    Holder::from_bits(u128::from_be_bytes(id.try_into().unwrap()))
}

fn number(row: &Row, column: &str) -> Option<i64> {
    row.get(column)
}

fn label(row: &Row, column: &str) -> Option<Label> {
    row.get::<_, Option<&str>>(column).map(|text| Label::read(text.as_bytes()))
}

fn fence(row: &Row) -> Option<Fence> {
    number(row, "fence").and_then(|number| Fence::new(number.unsigned_abs()))
}

fn stamp(micros: i64) -> Stamp {
    Stamp::from_micros(micros.unsigned_abs())
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap()
}
