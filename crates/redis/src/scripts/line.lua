-- Part of each script that may hand a key over: the key's queue (line).
--
-- The queue is a sorted set: the holders' digits by their tickets. A hash, the waiters, contains their data:
--   digits      ttl, how long to remember the fence, 1 if the claim has other keys too, else 0, and directly behind that the mode unless
--               it is exclusive, the channel, the 32 digits that prove a grant to the waiter if it requires a proof, and a space
--               and the label if there is one; separated by spaces. No channel: it cannot be notified, and counts as listening.
--   u           the holder of an unclaimed hand-over: digits, a space, the channel
--   s:channel   waiters on this channel are skipped

local CLEARED_AT_ONCE = 100

-- Whole milliseconds that a server accepts as a key's lifetime: more than zero, and not so many
-- digits that they overflow.
local MS = '([1-9]%d?%d?%d?%d?%d?%d?%d?%d?%d?%d?%d?%d?)'
local STANDS = '^' .. MS .. ' ' .. MS .. ' ([01])([^ ]*) ([^ ]*)(.*)$'

local function standing(digits, ticket, record)
  local ttl, keep, more, mode, channel, behind = string.match(record or '', STANDS)
  local nonce, tail = nonce_of(behind or '')
  return {
    digits = digits, ticket = ticket, record = record, channel = channel, nonce = nonce, tail = tail,
    ttl = tonumber(ttl), keep = tonumber(keep), more = more == '1', want = wanted(mode or ''),
  }
end

local function new_line(length, unclaimed)
  return {
    length = length, stored = length, read = 0, others = {}, nth = 1, gone = {},
    counts = {}, struck = {}, strikes = {}, unclaimed = unclaimed, was_unclaimed = unclaimed,
  }
end

-- The queue of a key, or false. The requester is kept apart from the others, because it may join
-- and leave.
local function line(s)
  if s.line ~= nil then return s.line end
  s.line = false
  if s.beside == 0 or redis.call('EXISTS', s.line_key, s.waiters_key) == 0 then return false end
  s.line = new_line(redis.call('ZCARD', s.line_key), redis.call('HGET', s.waiters_key, 'u'))
  local ticket = redis.call('ZSCORE', s.line_key, me)
  if ticket then s.line.me = standing(me, tonumber(ticket), redis.call('HGET', s.waiters_key, me)) end
  return s.line
end

-- Asks which channels have a listener, and which are skipped.
local function ask_about(s, channels)
  local counts = redis.call('PUBSUB', 'NUMSUB', unpack(channels))
  local fields = {}
  for i, channel in ipairs(channels) do
    s.line.counts[channel] = counts[2 * i]
    fields[i] = 's:' .. channel
  end
  local struck = redis.call('HMGET', s.waiters_key, unpack(fields))
  for i, channel in ipairs(channels) do
    if s.line.struck[channel] == nil then s.line.struck[channel] = struck[i] and true end
  end
end

-- Loads more of the queue.
local function read_on(s, count)
  local line = s.line
  local found = redis.call('ZRANGE', s.line_key, line.read, line.read + count - 1, 'WITHSCORES')
  line.read = line.read + count
  local digits = {}
  for i = 1, #found, 2 do digits[#digits + 1] = found[i] end
  local records = redis.call('HMGET', s.waiters_key, unpack(digits))
  local channels = {}
  for i = 1, #digits do
    local waiter = standing(digits[i], tonumber(found[2 * i]), records[i])
    if digits[i] ~= me then line.others[#line.others + 1] = waiter end
    local channel = waiter.channel
    if channel and channel ~= '' and line.counts[channel] == nil then
      line.counts[channel] = false
      channels[#channels + 1] = channel
    end
  end
  if #channels > 0 then ask_about(s, channels) end
end

local function stands_before(one, other)
  return one.ticket < other.ticket or one.ticket == other.ticket and one.digits < other.digits
end

-- The first waiter, or nil. Mostly two waiters are enough; otherwise load as many as one request
-- may handle.
local function first(s)
  local line = s.line
  while not line.others[line.nth] and line.read < line.stored do read_on(s, line.read == 0 and 2 or CLEARED_AT_ONCE) end
  local other = line.others[line.nth]
  if not line.me or not other then return line.me or other end
  return stands_before(line.me, other) and line.me or other
end

-- The waiter that is to ask if a key that was handed over on this channel has not been claimed. It
-- is the first of a few waiters on another channel, because other waiters on this channel may be as
-- dead as the new holder; otherwise the first waiter.
local function witness(s, channel)
  local line = s.line
  local at, mine = line.nth, line.me
  for _ = 1, LOOKED_AHEAD do
    while not line.others[at] and line.read < line.stored do read_on(s, LOOKED_AHEAD) end
    local waiter = line.others[at]
    if mine and not (waiter and stands_before(waiter, mine)) then
      waiter, mine = mine, nil
    elseif waiter then
      at = at + 1
    else
      break
    end
    if waiter.channel and waiter.channel ~= '' and waiter.channel ~= channel then return waiter end
  end
  return first(s)
end

-- Returns true if somebody may listen on the waiter's channel.
local function hears(s, waiter)
  local channel = waiter.channel
  if not channel or channel == '' then return channel == '' end
  if not s.line.counts[channel] then ask_about(s, { channel }) end
  return s.line.counts[channel] > 0 and not s.line.struck[channel]
end

local function strike(s, channel, struck)
  if channel ~= '' then s.line.struck[channel], s.line.strikes[channel] = struck, struck end
end

-- Removes the requester, or the first waiter.
local function out(s, waiter)
  local line = s.line
  if waiter == line.me then line.me = nil else line.nth = line.nth + 1 end
  line.length = line.length - 1
  line.gone[#line.gone + 1] = waiter.digits
end

-- A queue without waiters and without an unclaimed hand-over is removed, and the next waiter starts
-- a new one.
local function put_back(s)
  if s.line and s.line.length == 0 and not s.line.unclaimed then
    s.line = new_line(0, false)
    s.line.anew = true
  end
end

-- The requester has confirmed what it was handed.
local function claim(s)
  local line = line(s)
  if line and line.unclaimed and string.sub(line.unclaimed, 1, 32) == me then line.unclaimed = false end
end

-- The requester, or another waiter on its channel, has asked: hand-overs to that process will be
-- received.
local function heard_from(s, channel)
  strike(s, channel, false)
  claim(s)
  local unclaimed = s.line.unclaimed
  if unclaimed and channel ~= '' and string.sub(unclaimed, 34) == channel then s.line.unclaimed = false end
end

-- The requester leaves the queue.
local function leave(s)
  local line = line(s)
  if line and line.me then out(s, line.me) end
  claim(s)
  put_back(s)
end

