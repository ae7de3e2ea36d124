//! The statements for one schema. Each is complete in itself: nothing is prepared, and nothing
//! outlives a transaction, so a pooler may give each transaction another session.

use std::time::Duration;

use leasehold_core::{Fence, LastFence, Misuse, Ttl, WaitQueue};
use tokio_postgres::types::{ToSql, Type};

use crate::address::Address;
use crate::version::VERSION;

/// The clock on which leases are counted.
const NOW: &str = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint";

/// The timeline of the server, which is another one once it was promoted or restored to a point in
/// time.
const TIMELINE: &str = "substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)";

/// The cluster, the database and the table: a dump is always restored into others.
const PLACE: &str = "(SELECT concat_ws(' ', c.system_identifier, d.oid, '{s}.lease'::regclass::oid) \
    FROM pg_control_system() AS c, pg_database AS d WHERE d.datname = current_database())";

/// The tables other than `meta`.
pub(crate) const TABLES: [&str; 6] = ["lease", "share", "waiter", "unresponsive", "mark", "broken"];

/// The keys of one page of a list.
const OF_A_PAGE: &str = "key >= $1 AND ($2 OR key > $1) AND ($3::bytea IS NULL OR key < $3)";

/// Declares the statements of a store, in which each name in braces stands for a text of
/// [`replacements`].
macro_rules! statements {
    ($($name:ident: $text:expr,)*) => {
        /// The statements of a store.
        #[derive(Debug)]
        pub(crate) struct Sql {
            $(pub(crate) $name: String,)*
        }

        impl Sql {
            pub(crate) fn of(schema: &str) -> Self {
                let replacements = replacements(schema);
                let complete = |text: &str| {
                    replacements.iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, value))
                };
                Self { $($name: complete($text),)* }
            }
        }
    };
}

/// The names in braces, and the texts that they stand for in the statements of a schema.
fn replacements(schema: &str) -> [(&'static str, String); 11] {
    [
        ("{timeline}", TIMELINE.into()),
        ("{place}", PLACE.into()),
        ("{s}", quoted(schema)),
        ("{now}", NOW.into()),
        ("{of_a_page}", OF_A_PAGE.into()),
        ("{waiter}", WAITER.into()),
        ("{version}", VERSION.to_string()),
        ("{fence_max}", Fence::MAX.to_string()),
        ("{fence_kept}", interval(LastFence::kept_for(Ttl::MIN)).to_string()),
        ("{line_kept}", interval(WaitQueue::KEPT_FOR).to_string()),
        ("{looked_ahead}", WaitQueue::LOOKED_AHEAD.to_string()),
    ]
}

statements! {
    quick_grant: "SELECT * FROM {s}.quick_grant($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
    quick_renew: "SELECT * FROM {s}.quick_renew($1, $2, $3, $4, $5)",
    quick_release: "CALL {s}.quick_release($1, $2, $3, $4, $5, NULL, NULL, NULL, NULL, NULL)",
    // In the order of the keys, so that there is no deadlock. A missing row is created, because a
    // transaction can wait for another one's uncommitted row only if both write it.
    lock: "INSERT INTO {s}.lease AS l (key) SELECT k FROM unnest($1::bytea[]) AS k ORDER BY k \
         ON CONFLICT (key) DO UPDATE SET awaited = l.awaited WHERE false",
    // A lock of the whole table makes this wait.
    locked: "WITH free AS (SELECT key FROM {s}.lease WHERE key = ANY ($1::bytea[]) FOR NO KEY UPDATE SKIP LOCKED) \
         SELECT key FROM {s}.lease WHERE key = ANY ($1::bytea[]) AND key NOT IN (SELECT key FROM free)",
    leases: "SELECT c.now, l.key, l.holder, l.label, l.ends, l.awaited, l.marker, l.fence, l.fence_ends, l.waiters, \
         l.handed, l.handed_on, l.queue_ends \
         FROM (SELECT {now} AS now) AS c LEFT JOIN {s}.lease AS l ON l.key = ANY ($1::bytea[])",
    waiters: WAITERS,
    shares: "SELECT key, holder, weight, fence, label, ends, unclaimed FROM {s}.share WHERE key = ANY ($1::bytea[])",
    unlocked_shares: "SELECT s.key, s.holder FROM {s}.share AS s JOIN unnest($1::bytea[], $2::bytea[]) AS g (key, holder) \
         ON s.key = g.key AND s.holder = g.holder FOR UPDATE OF s SKIP LOCKED",
    unresponsive: "SELECT key, channel FROM {s}.unresponsive WHERE key = ANY ($1::bytea[])",
    marks: "SELECT key, at, fence, label, period, {now}, ends FROM {s}.mark WHERE key = ANY ($1::bytea[])",
    member: "SELECT (SELECT value FROM {s}.meta WHERE name = 'voided')::bigint, \
         coalesce((SELECT value FROM {s}.meta WHERE name = 'timeline') = {timeline}, false) \
         AND coalesce((SELECT value FROM {s}.meta WHERE name = 'place') = {place}, false)",
    void_member: "INSERT INTO {s}.meta (name, value) VALUES ('timeline', {timeline}), ('place', {place}), ('voided', $1) \
         ON CONFLICT (name) DO UPDATE SET value = excluded.value",
    save_leases: "UPDATE {s}.lease AS l SET holder = n.holder, label = n.label, ends = n.ends, awaited = n.awaited, \
         marker = n.marker, fence = n.fence, fence_ends = n.fence_ends, waiters = n.waiters, handed = n.handed, \
         handed_on = n.handed_on, queue_ends = n.queue_ends \
         FROM unnest($1::bytea[], $2::bytea[], $3::text[], $4::bigint[], $5::boolean[], $6::text[], $7::bigint[], \
         $8::bigint[], $9::bigint[], $10::bytea[], $11::bigint[], $12::bigint[]) \
         AS n (key, holder, label, ends, awaited, marker, fence, fence_ends, waiters, handed, handed_on, queue_ends) \
         WHERE l.key = n.key",
    delete_leases: "DELETE FROM {s}.lease WHERE key = ANY ($1::bytea[])",
    save_waiters: "INSERT INTO {s}.waiter (key, ticket, holder, label, mode, ttl, channel, nonce, wants_more) \
         SELECT * FROM unnest($1::bytea[], $2::bigint[], $3::bytea[], $4::text[], $5::text[], $6::bigint[], \
         $7::bigint[], $8::bytea[], $9::boolean[]) ON CONFLICT (key, ticket, holder) DO UPDATE SET label = excluded.label, \
         mode = excluded.mode, ttl = excluded.ttl, channel = excluded.channel, nonce = excluded.nonce, \
         wants_more = excluded.wants_more",
    delete_waiters: "DELETE FROM {s}.waiter AS w USING unnest($1::bytea[], $2::bigint[], $3::bytea[]) \
         AS g (key, ticket, holder) WHERE w.key = g.key AND w.ticket = g.ticket AND w.holder = g.holder",
    forget_waiters: "DELETE FROM {s}.waiter WHERE key = ANY ($1::bytea[])",
    forget_unresponsive: "DELETE FROM {s}.unresponsive WHERE key = ANY ($1::bytea[])",
    save_unresponsive: "INSERT INTO {s}.unresponsive (key, channel) SELECT * FROM unnest($1::bytea[], $2::bigint[]) \
         ON CONFLICT DO NOTHING",
    delete_unresponsive: "DELETE FROM {s}.unresponsive AS s USING unnest($1::bytea[], $2::bigint[]) AS g (key, channel) \
         WHERE s.key = g.key AND s.channel = g.channel",
    save_shares: "INSERT INTO {s}.share (key, holder, weight, fence, label, ends, unclaimed) \
         SELECT * FROM unnest($1::bytea[], $2::bytea[], $3::integer[], $4::bigint[], $5::text[], $6::bigint[], $7::bigint[]) \
         ON CONFLICT (key, holder) DO UPDATE SET weight = excluded.weight, fence = excluded.fence, label = excluded.label, \
         ends = excluded.ends, unclaimed = excluded.unclaimed",
    delete_shares: "DELETE FROM {s}.share AS s USING unnest($1::bytea[], $2::bytea[]) AS g (key, holder) \
         WHERE s.key = g.key AND s.holder = g.holder",
    save_marks: "INSERT INTO {s}.mark (key, at, fence, label, period, ends) \
         SELECT * FROM unnest($1::bytea[], $2::bigint[], $3::bigint[], $4::text[], $5::bigint[], $6::bigint[]) \
         ON CONFLICT (key) DO UPDATE SET at = excluded.at, fence = excluded.fence, label = excluded.label, \
         period = excluded.period, ends = excluded.ends",
    sweep_marks: "DELETE FROM {s}.mark WHERE key = ANY (ARRAY(\
         SELECT key FROM {s}.mark WHERE ends <= {now} ORDER BY ends LIMIT 100 FOR UPDATE SKIP LOCKED))",
    // A mark that has ended counts as none.
    forget_mark: "DELETE FROM {s}.mark WHERE key = $1 RETURNING key, at, fence, label, period, {now}, ends",
    list_marks: "SELECT key, at, fence, label, period, {now}, ends FROM {s}.mark WHERE {of_a_page} AND ends > {now} \
         ORDER BY key LIMIT $4",
    save_breaks: "INSERT INTO {s}.broken (key, at, fence, held_by, broken_by, reason, ends) \
         SELECT * FROM unnest($1::bytea[], $2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::bigint[]) \
         ON CONFLICT (key) DO UPDATE SET at = excluded.at, fence = excluded.fence, held_by = excluded.held_by, \
         broken_by = excluded.broken_by, reason = excluded.reason, ends = excluded.ends",
    sweep_breaks: "DELETE FROM {s}.broken WHERE key = ANY (ARRAY(\
         SELECT key FROM {s}.broken WHERE ends <= {now} ORDER BY ends LIMIT 100 FOR UPDATE SKIP LOCKED))",
    last_break: "SELECT key, at, fence, held_by, broken_by, reason FROM {s}.broken WHERE key = $1 AND ends > {now}",
    list_breaks: "SELECT key, at, fence, held_by, broken_by, reason FROM {s}.broken WHERE {of_a_page} AND ends > {now} \
         ORDER BY key LIMIT $4",
    sweep: SWEEP,
    keys_in_use: "SELECT key FROM {s}.lease WHERE {of_a_page} \
         AND (holder IS NOT NULL OR marker IS NOT NULL OR waiters > 0) ORDER BY key LIMIT $4",
    version: "SELECT (SELECT value FROM {s}.meta WHERE name = 'version')::bigint, \
         (SELECT value FROM {s}.meta WHERE name = 'readable_by')::bigint, \
         (SELECT value FROM {s}.meta WHERE name = 'id'), {now}",
    baseline_acquire: "INSERT INTO {s}.lease AS l (key, holder, ends, awaited) VALUES ($1, $2, {now} + $3, false) \
         ON CONFLICT (key) DO NOTHING",
    baseline_release: "DELETE FROM {s}.lease WHERE key = $1 AND holder = $2",
    clock: "SELECT {now}",
    schema: concat!(include_str!("schema.sql"), "\n", include_str!("check.sql"), "\n", include_str!("quick.sql")),
}

/// The columns of a waiter, in the order of the table.
const WAITER: &str = "key, ticket, holder, label, mode, ttl, channel, nonce, wants_more";

/// The first few waiters of each queue (0), the last (1), and the requesters (2) with the number of
/// waiters before them; and whether somebody listens on their channels, as shown by an advisory
/// lock.
const WAITERS: &str = "
    SELECT w.key, w.ticket, w.holder, w.label, w.mode, w.ttl, w.channel, w.nonce, w.wants_more, w.part, w.place, w.known,
        CASE WHEN $6::boolean AND w.channel IS NOT NULL THEN NOT pg_try_advisory_xact_lock_shared(w.channel) END
    FROM (
        SELECT h.*, 0::bigint AS part, NULL::bigint AS place, true AS known FROM unnest($1::bytea[]) AS k,
            LATERAL (SELECT {waiter} FROM {s}.waiter WHERE key = k ORDER BY ticket, holder LIMIT $2) AS h
        UNION ALL
        SELECT l.*, 1, NULL, true FROM unnest($1::bytea[]) AS k,
            LATERAL (SELECT {waiter} FROM {s}.waiter WHERE key = k ORDER BY ticket DESC, holder DESC LIMIT 1) AS l
        UNION ALL
        SELECT a.key, coalesce(o.ticket, a.ticket), a.holder, o.label, o.mode, o.ttl, o.channel, o.nonce, o.wants_more, 2,
            (SELECT count(*) FROM {s}.waiter AS b
                WHERE b.key = a.key AND (b.ticket, b.holder) < (coalesce(o.ticket, a.ticket), a.holder)),
            o.ticket IS NOT NULL
        FROM unnest($3::bytea[], $4::bytea[], $5::bigint[]) AS a (key, holder, ticket)
        LEFT JOIN {s}.waiter AS o ON o.key = a.key AND o.holder = a.holder
        WHERE coalesce(o.ticket, a.ticket) IS NOT NULL
    ) AS w";

/// Reads a random page of the table, and removes those of its rows in which everything has ended.
const SWEEP: &str = "
    WITH page AS (SELECT floor(random() * greatest(1, pg_relation_size('{s}.lease') / current_setting('block_size')::bigint)) AS n),
    ended AS (
        SELECT l.key FROM {s}.lease AS l
        WHERE l.ctid >= (SELECT format('(%s,0)', n)::tid FROM page) AND l.ctid < (SELECT format('(%s,0)', n + 1)::tid FROM page)
            AND coalesce(l.ends, 0) <= {now} AND coalesce(l.fence_ends, 0) <= {now} AND coalesce(l.queue_ends, 0) <= {now}
        FOR UPDATE SKIP LOCKED
    ),
    waiters AS (DELETE FROM {s}.waiter WHERE key IN (SELECT key FROM ended)),
    unresponsive AS (DELETE FROM {s}.unresponsive WHERE key IN (SELECT key FROM ended)),
    shares AS (DELETE FROM {s}.share WHERE key IN (SELECT key FROM ended))
    DELETE FROM {s}.lease WHERE key IN (SELECT key FROM ended)";

/// A parameter of a statement.
#[derive(Debug)]
pub(crate) struct Parameter<'a>(Box<dyn ToSql + Send + Sync + 'a>, Type);

impl<'a> Parameter<'a> {
    pub(crate) fn one(value: impl ToSql + Send + Sync + 'a, of: Type) -> Self {
        Self(Box::new(value), of)
    }

    /// An array with an element for each row.
    pub(crate) fn each<R, T: ToSql + Send + Sync + 'a>(
        rows: &'a [R],
        of: Type,
        element: impl FnMut(&'a R) -> T,
    ) -> Self {
        Self::one(rows.iter().map(element).collect::<Vec<_>>(), of)
    }

    /// The parameters as the client library takes them.
    pub(crate) fn list(all: &[Self]) -> Vec<(&(dyn ToSql + Sync), Type)> {
        all.iter().map(|Self(value, of)| (&**value as _, of.clone())).collect()
    }
}

/// A length of time as the tables have it: in µs.
pub(crate) fn interval(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

/// An identifier in quotes, whatever it contains.
pub(crate) fn quoted(identifier: &str) -> String {
    format!("\"{}\"", identifier.replace('"', "\"\""))
}

/// The type of the key, as the statement of [`check_sql`] takes it.
pub const KEY: Type = Type::BYTEA;

/// The type of the fence.
pub const FENCE: Type = Type::INT8;

/// The SQLSTATE with which that statement refuses a writer whose lock is lost.
pub const LOST: &str = "LH001";

/// The statement that refuses a writer whose lock is lost, for the store with this URL or
/// [name](leasehold_core::Store::name). Its arguments are the key and the fence.
///
/// # Errors
///
/// [`Misuse::Url`] if that is not a PostgreSQL store.
pub fn check_sql(store: &str) -> Result<String, Misuse> {
    Ok(format!("SELECT {}.\"check\"($1, $2)", quoted(&Address::parse(store)?.schema)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_quotes_is_one_identifier() {
        assert_eq!(quoted(r#"a"; DROP TABLE x; --"#), r#""a""; DROP TABLE x; --""#);
    }
}
