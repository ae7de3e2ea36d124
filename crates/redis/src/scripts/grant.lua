-- Gives a holder all keys of a claim, or none; or lets it take those that are free, in their order,
-- and wait in the queue of the first that is not. Repeating a request with the same holder has the
-- same effect as making it once.
--
-- ARGV  1  32 digits of the holder
--       2  how long a key that is handed over may remain unclaimed, in ms
--       3  the part of the value after the digits: nothing, or a space and the label
--       4  the ttl, in ms
--       5  how long to remember the fence, in ms
--       6  after this time on the server's clock, in µs since 1970, do nothing; empty: never
--       7  the mode of each key, separated by spaces: x exclusive, s shared, p2/4 two of four permits
--     and only if it waits:
--       8  its channel; empty: it cannot be notified
--       9  the key for which it has a ticket; empty: none
--      10  the ticket
--      11  the length of a queue that it does not join; empty: it joins any
--      12  how long to remember the queue, in ms
--      13  32 digits that a push which grants it the key must repeat; empty if it cannot be notified
--
-- The last field of each answer lists the keys that are free although somebody waits, and the field
-- before it is the server's time in µs. n counts the keys from 1.
--   0 fence                              granted; the fence is new to each of the keys
--   1 n value pttl                       key n is held, by this value, for so long (-1: no end). If several hold it, an array
--                                        replaces the value: the marker, and digits, weight, fence (-: none yet) and tail of the
--                                        share that ends first; and the remaining time of that share
--   2                                    too late
--   3 n                                  key n has something that is not a string
--   4 n                                  the fence of key n is the greatest that a double represents exactly
--   5 n name                             the fence key of key n, of this name, contains something that is not a number
--   7 n value pttl ticket before stood
--                                        key n is held, and it is in the queue there, behind so many; stood 1: it was before
--   8 n value pttl length                key n is held, and its queue has reached the limit, so it did not join; it holds nothing
--   9                                    a key is not handed over yet
--  11                                    the ttl is longer than the quorum's longest
--
-- Nothing is written if the answer is 2, 3, 4, 5 or 11. A value that is not this holder's is never
-- overwritten except to mark it. A lease that this holder has is never shortened: otherwise a
-- delayed grant could cut off the renewal that overtook it.

local tail, ttl, keep, not_after = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]
local channel, ticket_at, ticket, limit = ARGV[8], tonumber(ARGV[9]), tonumber(ARGV[10]), tonumber(ARGV[11])
local kept = channel and whole(now_ms + tonumber(ARGV[12]))
local several = #KEYS > 6

if ttl > longest then return { 11, time, {} } end
if not_after ~= '' and now > tonumber(not_after) then return { 2, time, {} } end

local all = {}
for mode in string.gmatch(ARGV[7], '[^ ]+') do
  local n = #all + 1
  local s = see(n, wanted(mode))
  if s.other then return { 3, n, time, {} } end
  local _, follows = fence(s)
  if s.odd then return { 5, n, s.fence_key, time, {} } end
  if not follows then return { 4, n, time, {} } end
  all[n] = s
end
for _, s in ipairs(all) do settle(s) end

-- At its ticket's place if it has one, otherwise where it is already, otherwise at the end.
local function join(s)
  s.queue = queue(s) or new_queue(0, false)
  local queue = s.queue
  local at = queue.me and queue.me.ticket or ticket_at == s.n and ticket
  if not at then
    local last = queue.length > 0 and redis.call('ZRANGE', s.queue_key, -1, -1, 'WITHSCORES')
    -- If another program wrote a place whose number is too great to count on, later waiters follow
    -- it in the order in which they join.
    at = above(last and tonumber(last[2]) < FENCE_MAX and last[2])
  end
  if not queue.me then queue.length = queue.length + 1 end
  local nonce = ARGV[13] ~= '' and ' ' .. ARGV[13] or ''
  local record = table.concat({ ARGV[4], ARGV[5], (several and 1 or 0) .. s.want.mode, channel }, ' ') .. nonce .. tail
  queue.me, queue.joined = new_waiter(me, at, record), true
end

-- Takes one key and returns nothing, or joins its queue.
local function step(s)
  if holds(s, s.want) then return take(s, tail, ttl) end
  local stood = false
  if queue(s) then
    heard_from(s, channel)
    stood = s.queue.me ~= nil
  end
  if stood or ticket_at == s.n then join(s) end
  local turn = advance(s, true)
  if turn == 'free' or turn == 'asking' then
    take(s, tail, ttl)
    -- The waiters behind may be able to share the key.
    if turn == 'asking' then advance(s) end
    return
  end
  if turn == 'unknown' then
    join(s)
    return { 9 }
  end
  local length = s.queue and s.queue.length or 0
  local answer = holding(s)
  if not (s.queue and s.queue.me) then
    if limit and length >= limit then
      answer[1], answer[5] = 8, length
      return answer
    end
    join(s)
  end
  mark(s)
  answer[1], answer[5], answer[6], answer[7] = 7, whole(s.queue.me.ticket), 0, stood and 1 or 0
  return answer
end

local function try()
  local refused
  for n, s in ipairs(all) do
    local turn = not holds(s, s.want) and advance(s)
    if turn == 'taken' then refused = refused or holding(s) end
    if turn == 'unknown' then refused = refused or { 9 } end
  end
  if not refused then for _, s in ipairs(all) do take(s, tail, ttl) end end
  return refused
end

-- An attempt that kept keys behind the one for which it waits could deadlock with somebody who
-- waits for those. And an attempt that may not wait keeps nothing at all.
local function wait()
  local taken = {}
  for n, s in ipairs(all) do
    -- After the last key there is none to wait for.
    local may_be_kept = n < #all and not holds(s, s.want)
    local answer = step(s)
    if not answer and may_be_kept then taken[#taken + 1] = s end
    if answer then
      -- A kept key has no fence of its own yet. But raise the fence above that of the previous
      -- holder, because otherwise somebody could break this attempt with that fence.
      for _, it in ipairs(taken) do
        local last, follows = fence(it)
        if follows then remember(it, above(last), keep) end
      end
      for i = answer[1] == 8 and 1 or n + 1, #all do give_back(all[i]) end
      return answer
    end
  end
end

local answer = channel and wait()
if not channel then answer = try() end
if not answer then
  local last = 0
  for _, s in ipairs(all) do last = math.max(last, tonumber(fence(s) or 0)) end
  -- Waiters that were handed a key in this step may have used up its fences.
  local number = math.min(math.max(last + 1, floor), FENCE_MAX)
  for _, s in ipairs(all) do
    remember(s, number, keep)
    if s.shared then shares().stamp(s, number) end
  end
  answer = { 0, whole(number) }
end
answer[#answer + 1] = time
finish(all, answer, kept)
if answer[1] == 7 then answer[6] = redis.call('ZRANK', all[answer[2]].queue_key, me) end
return answer
