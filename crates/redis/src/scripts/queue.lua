-- Part of each script that may hand a key over: the key's queue (queue).
--
-- The queue is a sorted set: the holders' digits by their tickets. A hash, the waiters, contains
-- their data:
--   digits      ttl, how long to remember the fence, 1 if the claim has other keys too, else 0, and directly behind that the mode unless
--               it is exclusive, the channel, the 32 digits that prove a grant to the waiter if it requires a proof, and a space
--               and the label if there is one; separated by spaces. A silent channel, which begins with ?, only shows which
--               waiters are of the same process: that cannot be notified, and counts as listening. So does a waiter without one.
--   u           the holder of an unclaimed hand-over: digits, a space, the channel
--   s:channel   waiters on this channel are skipped

local CLEARED_AT_ONCE = 100

-- Whole milliseconds that a server accepts as a key's lifetime: more than zero, and not so many
-- digits that they overflow. The pattern does not limit the digits: Lua would try every combination of
-- optional ones, which takes a tenth of a second for each record that does not match.
local STANDS, MOST_DIGITS = '^([1-9]%d*) ([1-9]%d*) ([01])([^ ]*) ([^ ]*)(.*)$', 12

local function new_waiter(digits, ticket, record)
  local ttl, keep, more, mode, channel, behind = string.match(record or '', STANDS)
  if channel and math.max(#ttl, #keep) > MOST_DIGITS then channel = nil end
  local nonce, tail = nonce_of(channel or '', behind or '')
  return {
    digits = digits, ticket = ticket, record = record, channel = channel, nonce = nonce, tail = tail,
    ttl = tonumber(ttl), keep = tonumber(keep), more = more == '1', want = wanted(mode or ''),
  }
end

local function new_queue(length, unclaimed)
  return {
    length = length, stored = length, read = 0, others = {}, nth = 1, gone = {},
    counts = {}, unresponsive = {}, changed_channels = {}, unclaimed = unclaimed, was_unclaimed = unclaimed,
  }
end

-- The queue of a key, or false. The requester is kept apart from the others, because it may join
-- and leave.
local function queue(s)
  if s.queue ~= nil then return s.queue end
  s.queue = false
  if s.beside == 0 or redis.call('EXISTS', s.queue_key, s.waiters_key) == 0 then return false end
  s.queue = new_queue(redis.call('ZCARD', s.queue_key), redis.call('HGET', s.waiters_key, 'u'))
  local ticket = redis.call('ZSCORE', s.queue_key, me)
  if ticket then s.queue.me = new_waiter(me, tonumber(ticket), redis.call('HGET', s.waiters_key, me)) end
  return s.queue
end

-- Asks which channels have a listener, and which are skipped.
local function ask_about(s, channels)
  local counts = redis.call('PUBSUB', 'NUMSUB', unpack(channels))
  local fields = {}
  for i, channel in ipairs(channels) do
    s.queue.counts[channel] = counts[2 * i]
    fields[i] = 's:' .. channel
  end
  local unresponsive = redis.call('HMGET', s.waiters_key, unpack(fields))
  for i, channel in ipairs(channels) do
    if s.queue.unresponsive[channel] == nil then s.queue.unresponsive[channel] = unresponsive[i] and true end
  end
end

-- Loads more of the queue.
local function read_on(s, count)
  local queue = s.queue
  local found = redis.call('ZRANGE', s.queue_key, queue.read, queue.read + count - 1, 'WITHSCORES')
  queue.read = queue.read + count
  local digits = {}
  for i = 1, #found, 2 do digits[#digits + 1] = found[i] end
  local records = redis.call('HMGET', s.waiters_key, unpack(digits))
  local channels = {}
  for i = 1, #digits do
    local waiter = new_waiter(digits[i], tonumber(found[2 * i]), records[i])
    if digits[i] ~= me then queue.others[#queue.others + 1] = waiter end
    local channel = waiter.channel
    if channel and channel ~= '' and queue.counts[channel] == nil then
      queue.counts[channel] = false
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
  local queue = s.queue
  while not queue.others[queue.nth] and queue.read < queue.stored do read_on(s, queue.read == 0 and 2 or CLEARED_AT_ONCE) end
  local other = queue.others[queue.nth]
  if not queue.me or not other then return queue.me or other end
  return stands_before(queue.me, other) and queue.me or other
end

-- The waiter that is to ask if a key that was handed over on this channel has not been claimed. It
-- is the first of a few waiters on another channel, because other waiters on this channel may be as
-- dead as the new holder; otherwise the first waiter.
local function witness(s, channel)
  local queue = s.queue
  local at, mine = queue.nth, queue.me
  for _ = 1, LOOKED_AHEAD do
    while not queue.others[at] and queue.read < queue.stored do read_on(s, LOOKED_AHEAD) end
    local waiter = queue.others[at]
    if mine and not (waiter and stands_before(waiter, mine)) then
      waiter, mine = mine, nil
    elseif waiter then
      at = at + 1
    else
      break
    end
    if waiter.channel and not is_silent(waiter.channel) and waiter.channel ~= channel then return waiter end
  end
  return first(s)
end

-- Returns true if the process of a waiter that was loaded may be there.
local function hears(s, waiter)
  local channel = waiter.channel
  return channel and (is_silent(channel) or s.queue.counts[channel] > 0) and not s.queue.unresponsive[channel]
end

local function set_unresponsive(s, channel, unresponsive)
  if channel ~= '' then s.queue.unresponsive[channel], s.queue.changed_channels[channel] = unresponsive, unresponsive end
end

-- Removes the requester, or the first waiter.
local function out(s, waiter)
  local queue = s.queue
  if waiter == queue.me then queue.me = nil else queue.nth = queue.nth + 1 end
  queue.length = queue.length - 1
  queue.gone[#queue.gone + 1] = waiter.digits
end

-- A queue without waiters and without an unclaimed hand-over is removed, and the next waiter starts
-- a new one.
local function put_back(s)
  if s.queue and s.queue.length == 0 and not s.queue.unclaimed then
    s.queue = new_queue(0, false)
    s.queue.anew = true
  end
end

-- The requester has confirmed what it was handed.
local function claim(s)
  local queue = queue(s)
  if queue and queue.unclaimed and string.sub(queue.unclaimed, 1, 32) == me then queue.unclaimed = false end
end

-- The requester, or another waiter on its channel, has asked: hand-overs to that process will be
-- received.
local function heard_from(s, channel)
  set_unresponsive(s, channel, false)
  claim(s)
  local unclaimed = s.queue.unclaimed
  if unclaimed and channel ~= '' and string.sub(unclaimed, 34) == channel then s.queue.unclaimed = false end
end

-- The requester leaves the queue.
local function leave(s)
  local queue = queue(s)
  if queue and queue.me then out(s, queue.me) end
  claim(s)
  put_back(s)
end

