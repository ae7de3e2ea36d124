-- Returns the mark of a key, and the time.
--
-- KEYS  1  the mark of the key
-- ARGV  none
--
--   0 value now               the mark; now is the server's time, in µs since 1970
--   3 1 pttl                  the mark is not a string
--   6 now                     there is none

local value, other = read(KEYS[1])
local now = whole(time_now())
if other then return { 3, 1, redis.call('PTTL', KEYS[1]) } end
if not value then return { 6, now } end
return { 0, value, now }
