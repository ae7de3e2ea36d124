-- Part of each script that reads keys and writes nothing: the state of one key.

-- The most values that fit on Lua's stack at once.
local AT_ONCE = 1000

-- All entries of a sorted set, with their data from a hash.
local function each(order, hash, from, tell)
  local found, digits = redis.call('ZRANGE', order, from, from + AT_ONCE - 1, 'WITHSCORES'), {}
  for i = 1, #found, 2 do digits[#digits + 1] = found[i] end
  if not digits[1] then return end
  for i, record in ipairs(redis.call('HMGET', hash, unpack(digits))) do tell(digits[i], found[2 * i], record) end
  return each(order, hash, from + AT_ONCE, tell)
end

local function look(at, now)
  local queue = {}
  each(KEYS[at + 3], KEYS[at + 4], 0, function(digits, ticket, record)
    local mode, channel, behind = string.match(record or '', '^%d+ %d+ [01]([^ ]*) ([^ ]*)(.*)$')
    local _, tail = nonce_of(channel or '', behind or '')
    for _, it in ipairs({ digits, ticket, mode or '', tail }) do queue[#queue + 1] = it end
  end)

  local time, key = whole(now), KEYS[at + 1]
  local found, other = read(key)
  if other then return { 3, 1, redis.call('PTTL', key), time, queue } end
  if not found then return { 6, 1, time, queue } end
  if not is_marker(found) then return { 1, 1, found, redis.call('PTTL', key), time, queue } end

  local shares = {}
  each(KEYS[at + 5], KEYS[at + 6], 0, function(digits, ends, record)
    if tonumber(ends) <= now / 1000 then return end
    local share = share_of(record)
    for _, it in ipairs({ digits, ends, whole(share.weight), share.fence, share.tail }) do shares[#shares + 1] = it end
  end)
  return { 12, 1, found, shares, time, queue }
end

