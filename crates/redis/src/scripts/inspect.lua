-- Says who holds a key, and who waits for it. Writes nothing.
--
-- ARGV  none
--
-- The second field is always 1, so that the fields stand where they do in the answers to a renewal and a release. The last two are
-- the server's time in µs, and the line: of each waiter, in order, 32 digits, the ticket, how it wants the key (empty: alone), and
-- nothing or a space and the label.
--   1 1 value pttl fence      it is held, by this value, for so long (-1: no end); fence empty: unknown
--   3 1 pttl                  it has something that is no string
--   6 1                       nobody holds it
--  12 1 marker shares         several hold it, or nobody any more: of each, in order of their ends, 32 digits, the end in ms since 1970, the weight, the
--                             fence (-: none yet), and nothing or a space and the label

-- More do not fit on Lua's stack at once.
local AT_ONCE = 1000

-- Everything of a sorted set, with what a hash knows of it.
local function each(order, hash, from, tell)
  local found, digits = redis.call('ZRANGE', order, from, from + AT_ONCE - 1, 'WITHSCORES'), {}
  for i = 1, #found, 2 do digits[#digits + 1] = found[i] end
  if not digits[1] then return end
  for i, record in ipairs(redis.call('HMGET', hash, unpack(digits))) do tell(digits[i], found[2 * i], record) end
  return each(order, hash, from + AT_ONCE, tell)
end

local line = {}
each(KEYS[3], KEYS[4], 0, function(digits, ticket, record)
  local mode, tail = string.match(record or '', '^%d+ %d+ [01]([^ ]*) [^ ]*(.*)$')
  for _, it in ipairs({ digits, ticket, mode or '', tail or '' }) do line[#line + 1] = it end
end)

local now = time_now()
local time = whole(now)
local found, other = read(KEYS[1])
if other then return { 3, 1, redis.call('PTTL', KEYS[1]), time, line } end
if not found then return { 6, 1, time, line } end
if not room_of(found) then return { 1, 1, found, redis.call('PTTL', KEYS[1]), read(KEYS[2]) or '', time, line } end

local shares = {}
each(KEYS[5], KEYS[6], 0, function(digits, ends, record)
  if tonumber(ends) <= now / 1000 then return end
  local share = share_of(record)
  for _, it in ipairs({ digits, ends, whole(share.weight), share.fence, share.tail }) do shares[#shares + 1] = it end
end)
return { 12, 1, found, shares, time, line }
