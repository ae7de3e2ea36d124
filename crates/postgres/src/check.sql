-- Refuses a writer whose lock is not its own any more. Call it in the transaction of the write:
-- from then until that transaction has ended nobody else is granted the lock, and when it returns
-- the lock is held under this fence.
CREATE OR REPLACE FUNCTION {s}."check"(key bytea, fence bigint) RETURNS void
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $check$
DECLARE
    found_ends bigint;
    last_fence bigint;
BEGIN
    SELECT l.ends INTO found_ends FROM {s}.lease AS l
        WHERE l.key = "check".key AND l.fence = "check".fence AND l.holder IS NOT NULL FOR KEY SHARE;
    IF NOT FOUND THEN
        SELECT h.ends INTO found_ends FROM {s}.share AS h
            WHERE h.key = "check".key AND h.fence = "check".fence FOR KEY SHARE;
    END IF;
    IF found_ends > (extract(epoch FROM clock_timestamp()) * 1000000)::bigint THEN
        RETURN;
    END IF;
    -- A snapshot from before the last renewal does not show it.
    IF found_ends > (extract(epoch FROM transaction_timestamp()) * 1000000)::bigint
        AND current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
        RAISE EXCEPTION 'whether the lock on % was renewed cannot be seen in the snapshot of this transaction', encode("check".key, 'escape')
            USING ERRCODE = 'serialization_failure',
                HINT = 'Try the transaction again, and check earlier in it, or use READ COMMITTED.';
    END IF;
    SELECT l.fence INTO last_fence FROM {s}.lease AS l WHERE l.key = "check".key;
    RAISE EXCEPTION 'the lock on % is not held under fence % any more', encode("check".key, 'escape'), "check".fence
        USING ERRCODE = 'LH001',
            DETAIL = CASE
                WHEN last_fence > "check".fence THEN 'It was granted again since, under fence ' || last_fence || '.'
                WHEN found_ends IS NOT NULL THEN 'The lease has ended.'
                ELSE 'Nobody holds it under this fence.' END,
            HINT = 'Roll back: another holder may be at work.';
END
$check$;

CREATE OR REPLACE FUNCTION {s}."check"(key text, fence bigint) RETURNS void LANGUAGE sql VOLATILE
    AS $check$ SELECT {s}."check"(convert_to(key, 'UTF8'), fence) $check$;
