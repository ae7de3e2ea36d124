-- What the program asks most about keys that are held exclusively, if at all: functions, because a
-- session then plans their statements only once. They give the answers of the program's own rules
-- in the cases that they know. A request in any other case changes nothing here, and has no answer.
--
-- Keys are given in order, so that there is no deadlock. Each statement of a function sees what was
-- committed before it began, so what is read after the row of a key was locked is current. The
-- settings end with the transaction.

-- Grants free keys without a queue. If a key is held, the request joins its queue, or is told who
-- holds it. All or none, if a row was locked only after "not_after".
CREATE FUNCTION {s}.quick_grant(wait text, not_after bigint, keys bytea[], holders bytea[], labels text[], lasts bigint[], kept bigint[],
        waits boolean[], channels bigint[], nonces bytea[], limits bigint[])
    RETURNS TABLE (nth integer, now bigint, token bigint, is_new boolean, ticket bigint, before bigint,
        held_by bytea, held_as text, held_fence bigint, held_for bigint)
    LANGUAGE plpgsql VOLATILE AS $quick$
DECLARE
    setting text;
    held record;
BEGIN
    setting := set_config('lock_timeout', wait, true);
    setting := set_config('synchronous_commit', 'on', true);
    FOR n IN 1 .. cardinality(keys) LOOP
        nth := n;
        now := {now};
        -- This also locks a row that it does not change.
        INSERT INTO {s}.lease AS l (key, holder, label, ends, awaited, fence, fence_ends)
            VALUES (keys[n], holders[n], labels[n], now + lasts[n], false, now, now + kept[n])
            ON CONFLICT (key) DO UPDATE SET holder = excluded.holder, label = excluded.label, ends = excluded.ends, awaited = false,
                fence = greatest(excluded.fence, CASE WHEN l.fence_ends > excluded.fence THEN l.fence + 1 END),
                fence_ends = greatest(excluded.fence_ends, l.fence_ends)
            WHERE l.holder IS NULL AND l.marker IS NULL AND l.waiters IS NULL AND l.fence IS DISTINCT FROM {fence_max}
                AND NOT EXISTS (SELECT FROM {s}.share AS s WHERE s.key = l.key)
            RETURNING l.fence, l.xmax = 0 INTO token, is_new;
        IF FOUND THEN
            RETURN NEXT;
            CONTINUE;
        END IF;
        SELECT l.holder, l.label, l.ends, l.fence, l.waiters INTO held FROM {s}.lease AS l
            WHERE l.key = keys[n] AND l.holder <> holders[n] AND l.ends > {now} AND l.fence IS DISTINCT FROM {fence_max}
                AND (l.waiters IS NULL OR l.queue_ends > {now})
                AND NOT EXISTS (SELECT FROM {s}.unresponsive AS s WHERE s.key = l.key)
                AND (NOT waits[n] OR (channels[n] IS NOT NULL AND (limits[n] IS NULL OR coalesce(l.waiters, 0) < limits[n])
                    AND NOT EXISTS (SELECT FROM {s}.waiter AS w WHERE w.holder = holders[n] AND w.key = l.key)));
        CONTINUE WHEN NOT FOUND;
        now := {now};
        ticket := NULL;
        IF waits[n] THEN
            ticket := greatest(now, (SELECT w.ticket + 1 FROM {s}.waiter AS w WHERE w.key = keys[n] ORDER BY w.ticket DESC LIMIT 1));
            INSERT INTO {s}.waiter (key, ticket, holder, label, mode, ttl, channel, nonce, wants_more)
                VALUES (keys[n], ticket, holders[n], labels[n], 'exclusive', lasts[n] / 1000, channels[n], nonces[n], false);
            UPDATE {s}.lease AS l SET awaited = true, waiters = coalesce(l.waiters, 0) + 1,
                    -- A process that asks has been heard since.
                    handed = CASE WHEN l.handed_on = channels[n] THEN NULL ELSE l.handed END,
                    queue_ends = greatest(l.queue_ends, now + {line_kept})
                WHERE l.key = keys[n];
        END IF;
        before := coalesce(held.waiters, 0);
        held_by := held.holder;
        held_as := held.label;
        held_fence := held.fence;
        held_for := held.ends - now;
        RETURN NEXT;
    END LOOP;
    IF {now} > not_after THEN
        RAISE EXCEPTION 'the request arrived too late' USING ERRCODE = 'LH002';
    END IF;
END
$quick$;

-- Renews leases, and never shortens one. So a holder to which the key was handed confirms it, too.
CREATE FUNCTION {s}.quick_renew(wait text, keys bytea[], holders bytea[], lasts bigint[], kept bigint[])
    RETURNS TABLE (nth integer, now bigint) LANGUAGE plpgsql VOLATILE AS $quick$
DECLARE
    setting text;
BEGIN
    setting := set_config('lock_timeout', wait, true);
    setting := set_config('synchronous_commit', 'on', true);
    FOR n IN 1 .. cardinality(keys) LOOP
        nth := n;
        now := {now};
        UPDATE {s}.lease AS l SET ends = greatest(l.ends, now + lasts[n]),
                fence_ends = CASE WHEN l.fence_ends > now THEN greatest(l.fence_ends, now + kept[n]) ELSE l.fence_ends END,
                handed = nullif(l.handed, l.holder)
            WHERE l.key = keys[n] AND l.holder = holders[n] AND l.ends > {now} AND l.fence IS NOT NULL
                AND (l.waiters IS NULL OR l.waiters > 0);
        IF FOUND THEN
            RETURN NEXT;
        END IF;
    END LOOP;
END
$quick$;

-- Releases keys. A key with a queue is handed to its first waiter, and the messages are returned:
-- to the requester of which key, on which channel, and what they say. A release for which nobody
-- waits does not wait for the disk: a crash may undo it, and the lease then ends.
--
-- A procedure, because it sends the messages to other channels than "own" itself, once the
-- hand-over is committed, in a second transaction: transactions that notify commit one after the
-- other, and this one waits for no disk.
CREATE PROCEDURE {s}.quick_release(wait text, claimed_within bigint, own bigint, keys bytea[], holders bytea[],
        INOUT now bigint, INOUT released boolean[], INOUT said_of integer[], INOUT said_on bigint[], INOUT said text[])
    LANGUAGE plpgsql AS $quick$
DECLARE
    setting text;
    held record;
    next record;
    witness record;
    lasts bigint;
    token bigint;
BEGIN
    setting := set_config('lock_timeout', wait, true);
    setting := set_config('synchronous_commit', 'off', true);
    -- The server then refuses a query from which waiters would be hidden.
    setting := set_config('row_security', 'off', true);
    FOR n IN 1 .. cardinality(keys) LOOP
        UPDATE {s}.lease AS l SET holder = NULL, label = NULL, ends = NULL, awaited = NULL
            WHERE l.key = keys[n] AND l.holder = holders[n] AND l.ends > {now} AND l.waiters IS NULL AND l.fence IS NOT NULL;
        now := {now};
        released[n] := FOUND;
        CONTINUE WHEN FOUND;
        SELECT l.fence INTO held FROM {s}.lease AS l
            WHERE l.key = keys[n] AND l.holder = holders[n] AND l.ends > {now} AND l.fence IS DISTINCT FROM {fence_max}
                AND l.waiters > 0 AND l.queue_ends > {now}
            FOR UPDATE;
        CONTINUE WHEN NOT FOUND;
        SELECT w.* INTO next
            FROM (SELECT * FROM {s}.waiter AS f WHERE f.key = keys[n] ORDER BY f.ticket, f.holder LIMIT 1) AS w
            WHERE w.mode = 'exclusive' AND NOT w.wants_more
                AND NOT EXISTS (SELECT FROM {s}.unresponsive AS s WHERE s.key = w.key)
                -- A holder may wait for the same key in another mode.
                AND NOT EXISTS (SELECT FROM {s}.waiter AS o WHERE o.holder = holders[n] AND o.key = w.key)
                -- Its process listens, as the lock shows that it holds.
                AND NOT pg_try_advisory_xact_lock_shared(w.channel);
        CONTINUE WHEN NOT FOUND;
        now := {now};
        lasts := least(1000 * next.ttl, claimed_within);
        token := greatest(now, held.fence + 1);
        DELETE FROM {s}.waiter AS w WHERE w.key = keys[n] AND w.ticket = next.ticket AND w.holder = next.holder;
        UPDATE {s}.lease AS l SET holder = next.holder, label = next.label, ends = now + lasts, awaited = l.waiters > 1,
                fence = token, fence_ends = greatest(l.fence_ends, now + greatest({fence_kept}, 2000 * next.ttl)),
                waiters = nullif(l.waiters - 1, 0), handed = CASE WHEN l.waiters > 1 THEN next.holder END, handed_on = next.channel
            WHERE l.key = keys[n];
        released[n] := true;
        said_of := said_of || n;
        said_on := said_on || next.channel;
        said := said || format('%s granted %s %s %s %s', encode(next.holder, 'hex'), now, token, lasts / 1000,
            coalesce(encode(next.nonce, 'escape'), '-'));
        -- The first of a few waiters of other processes is told when the hand-over must have been
        -- confirmed; the numbers of silent channels are negative.
        SELECT w.holder, w.channel INTO witness
            FROM (SELECT * FROM {s}.waiter AS f WHERE f.key = keys[n] ORDER BY f.ticket, f.holder LIMIT {looked_ahead}) AS w
            ORDER BY w.channel IS NULL OR w.channel < 0 OR w.channel = next.channel, w.ticket, w.holder LIMIT 1;
        IF FOUND THEN
            said_of := said_of || n;
            said_on := said_on || witness.channel;
            said := said || format('%s first %s %s', encode(witness.holder, 'hex'), now, lasts);
        END IF;
        setting := set_config('synchronous_commit', 'on', true);
    END LOOP;
    IF said IS NULL THEN
        RETURN;
    END IF;
    COMMIT;
    setting := set_config('synchronous_commit', 'off', true);
    PERFORM pg_notify('leasehold_' || lpad(to_hex(s.channel), 16, '0'), s.said)
        FROM unnest(said_on, said) AS s (channel, said) WHERE s.channel <> own;
END
$quick$;
