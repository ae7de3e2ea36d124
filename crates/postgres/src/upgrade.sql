-- From version 1 of the tables to version 2: a table and a column have other names. The functions of
-- check.sql and quick.sql are created again after this, in the same transaction. Locks and fences remain.
ALTER TABLE {s}.struck RENAME TO unresponsive;
ALTER TABLE {s}.unresponsive RENAME CONSTRAINT struck_pkey TO unresponsive_pkey;
ALTER TABLE {s}.lease RENAME COLUMN line_ends TO queue_ends;
DROP ROUTINE IF EXISTS {s}.quick_grant;
DROP ROUTINE IF EXISTS {s}.quick_renew;
DROP ROUTINE IF EXISTS {s}.quick_release;
UPDATE {s}.meta SET value = '2' WHERE name IN ('version', 'readable_by');
