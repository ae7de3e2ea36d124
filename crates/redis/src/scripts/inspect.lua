-- Says who holds a key, and who waits for it. Writes nothing.
--
-- ARGV  none
--
-- The second field is always 1, so that the fields stand where they do in the answers to a renewal and a release. The last two are
-- the server's time in µs, and the line: of each waiter, in order, 32 digits, the ticket, and nothing or a space and the label.
--   1 1 value pttl fence      it is held, by this value, for so long (-1: no end); fence empty: unknown
--   3 1 pttl                  it has something that is no string
--   6 1                       nobody holds it

-- More do not fit on Lua's stack at once.
local AT_ONCE = 1000

local line = {}
for from = 0, redis.call('ZCARD', KEYS[3]) - 1, AT_ONCE do
  local found, digits = redis.call('ZRANGE', KEYS[3], from, from + AT_ONCE - 1, 'WITHSCORES'), {}
  for i = 1, #found, 2 do digits[#digits + 1] = found[i] end
  for i, record in ipairs(redis.call('HMGET', KEYS[4], unpack(digits))) do
    line[#line + 1] = digits[i]
    line[#line + 1] = found[2 * i]
    line[#line + 1] = string.match(record or '', '^%d+ %d+ [01] [^ ]*(.*)$') or ''
  end
end

local time = whole(time_now())
local found, other = read(KEYS[1])
if other then return { 3, 1, redis.call('PTTL', KEYS[1]), time, line } end
if not found then return { 6, 1, time, line } end
return { 1, 1, found, redis.call('PTTL', KEYS[1]), read(KEYS[2]) or '', time, line }
