//! Rows that Leasehold would not write.

use std::time::Duration;

use leasehold::LockError;

use crate::world::{process, served, take, two, until};

const SECOND: Duration = Duration::from_secs(1);

/// Each makes at most one key unusable; other keys are not affected.
const ROWS: &[(&str, &str)] = &[
    ("marker", "INSERT INTO leasehold.lease (key, marker, ends) VALUES ('bad', 'nonsense', 1 << 60)"),
    ("empty marker", "INSERT INTO leasehold.lease (key, marker, ends) VALUES ('bad', '', 1 << 60)"),
    (
        "a marker without shares",
        "INSERT INTO leasehold.lease (key, marker, ends) VALUES ('bad', 'shared', 1 << 60)",
    ),
    (
        "the greatest numbers",
        "INSERT INTO leasehold.lease (key, holder, ends, awaited, fence, fence_ends, waiters, handed, handed_on, queue_ends) VALUES \
         ('bad', decode(repeat('ff', 16), 'hex'), 9223372036854775807, true, 9007199254740991, 9223372036854775807, \
         9223372036854775807, decode(repeat('00', 16), 'hex'), 9223372036854775807, 9223372036854775807)",
    ),
    (
        "waiters in an unknown mode",
        "INSERT INTO leasehold.lease (key, waiters, queue_ends) VALUES ('bad', 1, 1 << 60); INSERT INTO leasehold.waiter VALUES \
         ('bad', 1, decode(repeat('01', 16), 'hex'), 'x', 'sideways', 1000, 7, NULL, false)",
    ),
    (
        "a waiter with an endless ttl and a secret that is none",
        "INSERT INTO leasehold.lease (key, waiters, queue_ends) VALUES ('bad', 1, 1 << 60); INSERT INTO leasehold.waiter VALUES \
         ('bad', 9223372036854775807, decode(repeat('01', 16), 'hex'), 'x', 'exclusive', 9223372036854775807, 7, \
         decode(repeat('fe', 32), 'hex'), true)",
    ),
    (
        "fewer waiters than are counted",
        "INSERT INTO leasehold.lease (key, holder, ends, awaited, waiters, queue_ends) VALUES \
         ('bad', decode(repeat('ff', 16), 'hex'), 1 << 60, true, 1000000, 1 << 60)",
    ),
    (
        "more waiters than are counted",
        "INSERT INTO leasehold.lease (key, waiters, queue_ends) VALUES ('bad', 0, 1 << 60); INSERT INTO leasehold.waiter SELECT \
         'bad', n, decode(lpad(to_hex(n), 32, '0'), 'hex'), NULL, 'exclusive', 1000, 7, NULL, false FROM generate_series(1, 500) AS n",
    ),
    (
        "shares that nobody counts",
        "INSERT INTO leasehold.lease (key, marker, ends) VALUES ('bad', 'permits 3', 1 << 60); INSERT INTO leasehold.share SELECT \
         'bad', decode(lpad(to_hex(n), 32, '0'), 'hex'), 1048576, 7, E'\\x01', 9223372036854775807, 9 FROM generate_series(1, 5000) AS n",
    ),
    (
        "a mark of the greatest numbers",
        "INSERT INTO leasehold.mark VALUES ('bad', 9223372036854775807, 9007199254740991, 'x', 9223372036854775807, 9223372036854775807)",
    ),
    (
        "a break of the greatest numbers",
        "INSERT INTO leasehold.broken VALUES ('bad', 9223372036854775807, 9007199254740991, 'x', 'y', E'\\n', 9223372036854775807)",
    ),
    (
        "an id of another length",
        "INSERT INTO leasehold.lease (key, holder, ends, awaited) VALUES ('bad', E'\\x01', 1::bigint << 60, false)",
    ),
    (
        "times and fences below zero",
        "INSERT INTO leasehold.lease (key, holder, ends, awaited, fence, fence_ends, waiters, queue_ends) VALUES \
         ('bad', decode(repeat('ff', 16), 'hex'), -5, false, -7, -5, -1, -5)",
    ),
    (
        "a holder and a marker",
        "INSERT INTO leasehold.lease (key, holder, marker, ends) VALUES ('bad', decode(repeat('ff', 16), 'hex'), 'shared', 1::bigint << 60)",
    ),
    (
        "a holder without an end",
        "INSERT INTO leasehold.lease (key, holder) VALUES ('bad', decode(repeat('ff', 16), 'hex'))",
    ),
    (
        "channels without a queue",
        "INSERT INTO leasehold.lease (key) VALUES ('bad'); INSERT INTO leasehold.unresponsive SELECT 'bad', n FROM generate_series(1, 1000) AS n",
    ),
];

fn is_silent(error: &LockError) -> bool {
    error.to_string().contains("no answer")
}

/// What a request is told. On a busy machine an answer may be late; a lost one never comes.
async fn refusal<G, Asking: Future<Output = Result<G, LockError>>>(
    ask: impl Fn(Duration) -> Asking,
) -> Option<String> {
    let refused = match ask(SECOND / 2).await.err() {
        Some(error) if is_silent(&error) => ask(5 * SECOND).await.err(),
        answered => answered,
    };
    refused.map(|error| error.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_data_at_a_key_gets_an_answer_and_does_not_affect_other_keys() {
    let (server, db) = served().await;
    // A busy server answers late, and one whose answer is lost does not answer at all.
    let locks = process(&format!("{}?call-limit=5s", server.url()), 5 * SECOND).await;
    for (what, rows) in ROWS {
        db.batch_execute(rows).await.unwrap_or_else(|error| panic!("{what}: {error:?}"));
        // In one batch with healthy keys.
        let (first, last) = (locks.mutex("a"), locks.mutex("z"));
        let bad = locks.mutex("bad");
        let (first, refused, last) = tokio::join!(
            first.lock().within(5 * SECOND),
            bad.lock().within(SECOND / 2),
            last.lock().within(5 * SECOND)
        );
        let good = [first, last].map(|guard| guard.unwrap_or_else(|error| panic!("{what}: {error}")));
        let refused = match refused {
            Err(error) if is_silent(&error) => bad.lock().within(5 * SECOND).await,
            answered => answered,
        };
        match refused {
            Ok(guard) => drop(guard.release().await.unwrap_or_else(|error| panic!("{what}: {error}"))),
            Err(error) => assert!(!error.to_string().contains("no answer"), "{what}: {error}"),
        }
        for said in [
            locks.inspect("bad").await.err().map(|error| error.to_string()),
            locks.list("").await.err().map(|error| error.to_string()),
            refusal(|limit| locks.rw_lock("bad").read().within(limit)).await,
            refusal(|limit| locks.semaphore("bad", 3).acquire().within(limit)).await,
            locks.marked("bad").await.err().map(|error| error.to_string()),
            locks.last_break("bad").await.err().map(|error| error.to_string()),
        ]
        .into_iter()
        .flatten()
        {
            assert!(!said.contains("no answer") && !said.contains("ended"), "{what}: {said}");
        }
        for guard in good {
            assert!(guard.is_held(), "{what}");
            guard.release().await.unwrap();
        }
        let tables = ["lease", "share", "waiter", "unresponsive", "mark", "broken"];
        let clear = tables.map(|table| format!("DELETE FROM leasehold.{table}")).join(";");
        db.batch_execute(&clear).await.unwrap();
    }
    take(&locks, "bad").await.release().await.unwrap();
}

/// The error names the damaged row and the remedy.
#[tokio::test(flavor = "multi_thread")]
async fn damage_is_named_with_a_remedy_that_works() {
    let (server, db) = served().await;
    let locks = process(&server.url(), 5 * SECOND).await;
    db.batch_execute(ROWS[0].1).await.unwrap();
    let error = locks.mutex("bad").try_lock().await.unwrap_err().to_string();
    assert!(error.contains("the tables are damaged") && error.contains("nonsense"), "{error}");
    assert!(error.contains("delete that row"), "{error}");
    db.batch_execute("DELETE FROM leasehold.lease WHERE key = 'bad'").await.unwrap();
    take(&locks, "bad").await.release().await.unwrap();
}

/// To ask again would change nothing, so nobody waits as for a store that is silent.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_a_foreign_constraint_does_not_allow_is_refused_at_once() {
    let (server, db) = served().await;
    let locks = process(&server.url(), 5 * SECOND).await;
    db.batch_execute("ALTER TABLE leasehold.lease ADD CHECK (key <> 'bad')").await.unwrap();
    let refused = locks.mutex("bad").lock().await;
    let Err(LockError::Refused { fault, .. }) = &refused else { panic!("{refused:?}") };
    assert!(fault.to_string().contains("SQLSTATE 23514"), "{fault}");
    take(&locks, "good").await.release().await.unwrap();
}

/// Anybody who may connect may notify, and know a waiter's id and channel, but not its secret.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_believes_no_forged_notification() {
    const FORGED: u64 = 9_007_199_254_740_990;
    let (server, db) = served().await;
    let [holds, waits] = two(&server.url(), 60 * SECOND).await;
    let held = take(&holds, "k").await;
    let waiting = tokio::spawn(async move { take(&waits, "k").await });
    let waiter =
        "SELECT 'leasehold_' || lpad(to_hex(channel), 16, '0'), encode(holder, 'hex'), leasehold.now_micros()
        FROM leasehold.waiter WHERE nonce IS NOT NULL";
    until("it waits for a notification", async || !db.query(waiter, &[]).await.unwrap().is_empty()).await;
    let row = db.query_one(waiter, &[]).await.unwrap();
    let (channel, holder, now): (String, String, i64) = (row.get(0), row.get(1), row.get(2));
    for nonce in ["-", "x", &"0".repeat(32), &"f".repeat(32)] {
        let forged = format!("{holder} granted {now} {FORGED} 60000 {nonce}");
        db.execute("SELECT pg_notify($1, $2)", &[&channel, &forged]).await.unwrap();
    }
    // Notifications come in order, so it hears of its turn after these.
    let fence = held.fence();
    held.release().await.unwrap();
    let guard = waiting.await.unwrap();
    assert!(guard.fence() > fence && u64::from(guard.fence()) < FORGED, "{}", guard.fence());
    guard.release().await.unwrap();
}
