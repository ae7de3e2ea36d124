-- Leasehold's tables and functions. All times are microseconds since 1970 on this server's clock.
--
-- Everything that happens to a key happens under a row lock on its row of "lease", so the other
-- tables need no locks of their own.

-- IF NOT EXISTS would need the right to create a schema even if this one exists.
DO $$ BEGIN
    IF to_regnamespace('{s}') IS NULL THEN
        CREATE SCHEMA {s};
    END IF;
END $$;

CREATE TABLE {s}.meta (name text PRIMARY KEY, value text NOT NULL);

-- One row for each key that is held, waited for, or was used lately. A row stays for as long as its
-- fence is remembered. This table and that of the waiters have no CHECK, because the server parses
-- those again for each statement; the program checks what it reads.
CREATE TABLE {s}.lease (
    key bytea PRIMARY KEY,
    -- Its exclusive holder, and the end of that lease. Holders that share it have rows in "share",
    -- and the marker says how.
    holder bytea,
    label text,
    ends bigint,
    awaited boolean,
    marker text,
    -- The fencing token of the last grant.
    fence bigint,
    fence_ends bigint,
    -- How many wait, to whom it was handed and who has not been heard since, and when the queue is
    -- forgotten.
    waiters bigint,
    handed bytea,
    handed_on bigint,
    queue_ends bigint
) WITH (fillfactor = 50);

-- Makes the fence a part of the row's key: a grant, which changes it, waits for those who have the
-- row locked FOR KEY SHARE, as "check" does, and a renewal does not.
CREATE UNIQUE INDEX lease_by_fence ON {s}.lease (key, fence);

CREATE TABLE {s}.share (
    key bytea NOT NULL,
    holder bytea NOT NULL CHECK (octet_length(holder) = 16),
    weight integer NOT NULL CHECK (weight BETWEEN 1 AND 1048576),
    fence bigint CHECK (fence BETWEEN 0 AND {fence_max}),
    label text CHECK (octet_length(label) <= 256),
    ends bigint NOT NULL CHECK (ends >= 0),
    unclaimed bigint,
    PRIMARY KEY (key, holder)
);

CREATE TABLE {s}.waiter (
    key bytea NOT NULL,
    ticket bigint NOT NULL,
    holder bytea NOT NULL,
    label text,
    mode text NOT NULL,
    ttl bigint NOT NULL,
    -- The number of the channel that its process listens on, and the secret that a grant must
    -- repeat there.
    channel bigint,
    nonce bytea,
    wants_more boolean NOT NULL,
    PRIMARY KEY (key, ticket, holder)
);
CREATE UNIQUE INDEX waiter_by_holder ON {s}.waiter (holder, key);

-- Channels on which nobody took what was handed to them.
CREATE TABLE {s}.unresponsive (key bytea NOT NULL, channel bigint NOT NULL, PRIMARY KEY (key, channel));

-- The marks of "once" and "every": work that was done.
CREATE TABLE {s}.mark (
    key bytea PRIMARY KEY,
    at bigint NOT NULL CHECK (at >= 0),
    fence bigint NOT NULL CHECK (fence BETWEEN 0 AND {fence_max}),
    label text CHECK (octet_length(label) <= 256),
    -- How long after "at" it is to be done again; NULL: never.
    period bigint CHECK (period > 0),
    ends bigint NOT NULL CHECK (ends >= 0)
);
CREATE INDEX mark_by_end ON {s}.mark (ends);

-- Which lease of each key was broken last, by whom, and why.
CREATE TABLE {s}.broken (
    key bytea PRIMARY KEY,
    at bigint NOT NULL CHECK (at >= 0),
    fence bigint NOT NULL CHECK (fence BETWEEN 0 AND {fence_max}),
    held_by text CHECK (octet_length(held_by) <= 256),
    broken_by text CHECK (octet_length(broken_by) <= 256),
    reason text CHECK (octet_length(reason) <= 256),
    ends bigint NOT NULL CHECK (ends >= 0)
);
CREATE INDEX broken_by_end ON {s}.broken (ends);

CREATE FUNCTION {s}.now_micros() RETURNS bigint LANGUAGE sql VOLATILE
    AS 'SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint';

-- For people: what is held, and who waits.
CREATE VIEW {s}.held AS
    SELECT encode(l.key, 'escape') AS key, left(encode(l.holder, 'hex'), 8) AS holder, l.label, 'exclusive' AS mode, l.fence,
        to_timestamp(l.ends / 1000000.0) AS ends, coalesce(l.waiters, 0) AS waiters
    FROM {s}.lease AS l WHERE l.holder IS NOT NULL AND l.ends > {s}.now_micros()
    UNION ALL
    SELECT encode(l.key, 'escape'), left(encode(h.holder, 'hex'), 8), h.label,
        CASE WHEN l.marker = 'shared' THEN 'shared' ELSE h.weight || ' of ' || l.marker END, h.fence,
        to_timestamp(h.ends / 1000000.0), coalesce(l.waiters, 0)
    FROM {s}.lease AS l JOIN {s}.share AS h ON h.key = l.key
    WHERE l.marker IS NOT NULL AND l.ends > {s}.now_micros() AND h.ends > {s}.now_micros();

CREATE VIEW {s}.waiting AS
    SELECT encode(w.key, 'escape') AS key, rank() OVER (PARTITION BY w.key ORDER BY w.ticket, w.holder) AS place,
        left(encode(w.holder, 'hex'), 8) AS holder, w.label, w.mode, to_timestamp(w.ticket / 1000000.0) AS since
    FROM {s}.waiter AS w JOIN {s}.lease AS l ON l.key = w.key
    WHERE l.waiters > 0 AND l.queue_ends > {s}.now_micros();

INSERT INTO {s}.meta (name, value) VALUES
    ('version', '{version}'),
    -- The oldest program that may use these tables.
    ('readable_by', '{version}'),
    ('id', gen_random_uuid()::text),
    ('voided', {s}.now_micros()::text),
    ('timeline', {timeline}),
    ('place', {place});
