-- Part of each script that may grant a key to several holders at once: their shares.
--
-- The holders are a sorted set: their digits by the ends of their shares, in ms since 1970. A hash,
-- the shares, contains their data:
--   digits      weight, fence, channel, and a space and the label if there is one; separated by spaces. For the fence, -: none
--               yet. The channel is that of an unclaimed hand-over; -: it is claimed.
--   n           the sum of the weights
--
-- They count as long as the key has the marker, which ends with the last share. Their data are kept
-- a little longer, so that a waiter that did not claim its hand-over can be skipped.

local SHARES_KEPT = 15000
-- The latest end of a share, in ms since 1970: a number of 13 digits. Shares with later ends were
-- written by another program, and do not count: the marker would never expire, or the server would
-- refuse the end as an expiry after the first writes.
local ENDS_MAX = 9999999999999

-- The operations on shares. They are created only if there are shares: most scripts find none, and
-- creating them would take longer than all their calls to the server.
local function make_shares()
  -- The first two that end after this time.
  local function soonest(s, after)
    return redis.call('ZRANGEBYSCORE', s.holders_key, after, whole(ENDS_MAX), 'WITHSCORES', 'LIMIT', 0, 2)
  end

  -- The end of the last of the others' shares; read before anything is written.
  local function others_last(s)
    local shares = s.shares
    if not shares.last then
      local found = redis.call('ZREVRANGEBYSCORE', s.holders_key, whole(ENDS_MAX), '-inf', 'WITHSCORES', 'LIMIT', 0, 2)
      shares.last = tonumber(found[found[1] == me and 4 or 2]) or 0
    end
    return shares.last
  end

  local function gone(s, digits, weight)
    local shares = s.shares
    others_last(s)
    shares.gone[#shares.gone + 1] = digits
    shares.put[digits] = nil
    shares.sum = shares.sum - weight
  end

  -- Removes ended shares, as many as one request may remove. Holders that did not claim a hand-over
  -- are skipped.
  local function clear_ended(s)
    local ended = redis.call('ZRANGEBYSCORE', s.holders_key, '-inf', whole(now_ms), 'LIMIT', 0, CLEARED_AT_ONCE + 1)
    s.unsettled = #ended > CLEARED_AT_ONCE
    ended[CLEARED_AT_ONCE + 1] = nil
    for i, record in ipairs(redis.call('HMGET', s.shares_key, unpack(ended))) do
      local share = share_of(record)
      gone(s, ended[i], share.weight)
      if ended[i] ~= me and share.channel ~= '-' and queue(s) then set_unresponsive(s, share.channel, true) end
    end
  end

  -- Cleans up the shares.
  local function settle(s)
    local known = redis.call('HMGET', s.shares_key, me, 'n')
    -- If the sum was lost, the remaining amount is unknown.
    local shares = { sum = tonumber(known[2]) or math.huge, put = {}, gone = {} }
    s.shares = shares
    local ends = tonumber(redis.call('ZSCORE', s.holders_key, me))
    if ends and ends <= ENDS_MAX then
      local mine = share_of(known[1])
      mine.ends = ends
      if ends > now_ms then shares.mine = mine end
      if mine.channel ~= '-' then
        mine.channel, shares.put[me] = '-', mine
        others_last(s)
      end
    end
    local first = soonest(s, '-inf')
    if first[2] and tonumber(first[2]) <= now_ms then
      clear_ended(s)
      first = soonest(s, '(' .. whole(now_ms))
    end
    local at = first[1] == me and 3 or 1
    if first[at] then shares.other = { digits = first[at], ends = tonumber(first[at + 1]) } end
    if s.unsettled then return end
    if s.shared and not shares.mine and not shares.other then free(s) end
    if not s.shared then s.shares, s.void = nil, true end
  end

  -- Gives a holder a share of the key until this time, unless it has a longer one.
  local function share_out(s, digits, want, ends, channel, tail)
    if not s.value then
      s.value, s.shared, s.changed = want.marker, true, true
      s.left, s.void = SHARES_KEPT, s.void or s.beside ~= 0
      s.shares = { sum = 0, put = {}, gone = {}, last = 0 }
    end
    others_last(s)
    local shares, before = s.shares, digits == me and s.shares.mine or nil
    local share = { weight = want.weight, fence = '-', channel = channel, tail = tail, ends = ends }
    if before then
      share.weight, share.fence, share.ends = before.weight, before.fence, math.max(ends, before.ends)
    else
      shares.sum = shares.sum + want.weight
    end
    if digits == me then shares.mine = share end
    shares.put[digits], shares.marked = share, true
  end

  -- Makes the requester's lease a share of the same length, with the same fence. Shares that are
  -- left from before the lease do not count.
  local function downgrade(s, want)
    local ends, number, tail = ends_after(redis.call('PTTL', s.key)), s.number, s.tail
    s.value, s.owner, s.number = false, nil, nil
    share_out(s, me, want, ends, '-', tail)
    s.shares.mine.fence = number or '-'
  end

  -- Extends the requester's share to this time, unless it lasts longer already.
  local function prolong(s, ends)
    local mine = s.shares.mine
    if mine.ends < ends then mine.ends, s.shares.put[me] = ends, mine end
  end

  -- Sets the fence of the requester's share.
  local function stamp(s, number)
    local mine = s.shares.mine
    others_last(s)
    mine.fence, s.shares.put[me] = whole(number), mine
  end

  -- Makes a successor the holder of the requester's share.
  local function pass_on(s, successor, tail)
    local mine = s.shares.mine
    gone(s, me, 0)
    mine.tail, s.shares.put[successor], s.shares.mine, s.shares.marked = tail, mine, nil, true
  end

  -- The share that ends first: its holder, and its data.
  local function first_to_end(s)
    local shares = s.shares
    local digits, share = shares.other and shares.other.digits, shares.other
    local function sooner(other, its)
      if its.ends > now_ms and (not share or its.ends < share.ends or its.ends == share.ends and other < digits) then
        digits, share = other, its
      end
    end
    for other, its in pairs(shares.put) do sooner(other, its) end
    if shares.mine then sooner(me, shares.mine) end
    return digits, share
  end

  -- Removes the requester's share.
  local function drop(s)
    local shares = s.shares
    gone(s, me, shares.mine.weight)
    shares.mine, shares.marked = nil, true
    if not shares.other and not next(shares.put) and not s.unsettled then
      free(s)
      s.shares, s.void = nil, true
    end
  end

  -- The answer about a key whose share ends first: a code, and its fields.
  local function holding(s)
    local digits, share = first_to_end(s)
    if not share then return { 6, s.n } end
    if not share.weight then
      local ends = share.ends
      share = share_of(redis.call('HGET', s.shares_key, digits))
      share.ends = ends
    end
    return { 1, s.n, { s.value, digits, whole(share.weight), share.fence, share.tail }, share.ends - now_ms }
  end

  -- The end of the last share; the marker ends then, with exactly the same number.
  local function last_end(s)
    local shares, last = s.shares, others_last(s)
    for _, share in pairs(shares.put) do last = math.max(last, share.ends) end
    return math.max(last, shares.mine and shares.mine.ends or 0)
  end

  local function write_shares(s)
    local shares = s.shares
    if not shares.last then return end
    local last, scores, records = last_end(s), {}, {}
    for digits, share in pairs(shares.put) do
      scores[#scores + 1] = whole(share.ends)
      scores[#scores + 1] = digits
      records[#records + 1] = digits
      records[#records + 1] = table.concat({ whole(share.weight), share.fence, share.channel }, ' ') .. share.tail
    end
    if shares.sum < math.huge then
      records[#records + 1] = 'n'
      records[#records + 1] = whole(shares.sum)
    end
    if scores[1] then redis.call('ZADD', s.holders_key, unpack(scores)) end
    if records[1] then redis.call('HSET', s.shares_key, unpack(records)) end
    if shares.marked then redis.call('PEXPIREAT', s.key, whole(last)) end
    redis.call('PEXPIREAT', s.holders_key, whole(last + SHARES_KEPT))
    redis.call('PEXPIREAT', s.shares_key, whole(last + SHARES_KEPT))
  end

  return {
    settle = settle, share_out = share_out, downgrade = downgrade, prolong = prolong, stamp = stamp, pass_on = pass_on, first_to_end = first_to_end, drop = drop, holding = holding,
    last_end = last_end, write = write_shares,
  }
end

local made
local function shares()
  made = made or make_shares()
  return made
end

-- Cleans up the shares of a key before anything else is done with it. Without the marker no share
-- counts any more, and none may revive after others have held the key in between; without shares
-- the marker is removed. The requester has proved that it is alive.
--
-- There is nothing to do next to a lease: any shares are removed before there is a marker again.
local function settle(s)
  if s.owner then return end
  if not s.shared then
    s.beside = redis.call('EXISTS', s.queue_key, s.waiters_key, s.holders_key, s.shares_key)
    if s.beside == 0 or redis.call('EXISTS', s.holders_key, s.shares_key) == 0 then return end
  end
  shares().settle(s)
end

-- Returns true if the requester has the key alone and wants to read it.
local function is_downgrade(s, want)
  return s.owner == me and want.mode == 's'
end

-- Returns true if the requester holds the key and, if it matters, in the wanted mode.
local function holds(s, want)
  if s.shared then return s.shares.mine ~= nil and (not want or s.value == want.marker) end
  return s.owner == me and not (want and want.marker)
end

-- Returns true if a requester that holds nothing of the key could be granted it.
local function fits(s, want)
  if not s.value then return not s.other end
  return s.value == want.marker and s.shares.sum + want.weight <= want.room
end

-- How long the key lasts, in ms, or the share that ends first; -1: without an end.
local function left(s)
  if s.shared then
    local _, share = shares().first_to_end(s)
    return share and share.ends - now_ms or 0
  end
  s.left = s.left or redis.call('PTTL', s.key)
  return s.left
end

-- The holder of a key, as the reason of a refusal: a code, and its fields. Of several, the holder
-- to wait for first.
local function holding(s)
  if s.other then return { 3, s.n, left(s) } end
  if not s.value then return { 6, s.n } end
  if s.shared then return shares().holding(s) end
  return { 1, s.n, s.value, left(s) }
end

