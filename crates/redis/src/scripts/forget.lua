-- Deletes a mark, and returns it.
--
-- KEYS  1  the mark of the key
-- ARGV  none
--
--   0 value now               the deleted mark; now is the server's time, in µs since 1970
--   3 1 pttl                  the mark is not a string; it is kept
--   6 now                     there was none

local value, other = read(KEYS[1])
local now = whole(time_now())
if other then return { 3, 1, redis.call('PTTL', KEYS[1]) } end
if not value then return { 6, now } end
redis.call('DEL', KEYS[1])
return { 0, value, now }
