-- Deletes a mark, and returns it.
--
-- KEYS  1  the mark of the key
-- ARGV  none
--
--   0 value now               the deleted mark; now is the server's time, in µs since 1970
--   3 1 pttl                  the mark is not a string; it is kept
--   6 now                     there was none
--
-- Something is written also if there was none: `WAIT` confirms only what its connection has written,
-- and an earlier request may have deleted the mark unconfirmed. The first command is one that a server
-- with a full memory accepts, and so it accepts the rest.

local value, other = read(KEYS[1])
local now = whole(time_now())
if other then return { 3, 1, redis.call('PTTL', KEYS[1]) } end
redis.call('DEL', KEYS[1])
if value then return { 0, value, now } end
redis.call('SET', KEYS[1], '')
redis.call('DEL', KEYS[1])
return { 6, now }
