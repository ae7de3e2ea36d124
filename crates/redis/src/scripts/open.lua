-- Checks that scripts may be run here, and reads the clock. Accesses no key.
--
-- KEYS, ARGV  none
--
-- Returns what TIME returns: seconds since 1970, and microseconds.

return redis.call('TIME')
