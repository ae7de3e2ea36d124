-- Finds out whether scripts may be run here, and reads the clock. Touches no key.
--
-- KEYS, ARGV  none
--
-- Answers as TIME does: seconds since 1970, and microseconds.

return redis.call('TIME')
