-- Deletes a key that has a value still: what a lock without a fence and a line is let go by. Nothing is locked by it; locks are measured
-- against it.
--
-- KEYS  1  the key
-- ARGV  1  the value
--
-- Answers 1, or 0 where it has another value or none.

if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
