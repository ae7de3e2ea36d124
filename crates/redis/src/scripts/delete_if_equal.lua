-- Deletes a key that has a value still, for servers that have no command for it: so a lock is let go that nobody waits for.
--
-- KEYS  1  the key
-- ARGV  1  the value
--
-- Answers 1, or 0 where it has another value or none.

if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
