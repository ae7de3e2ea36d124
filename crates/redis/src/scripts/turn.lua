-- Part of each script that may hand a key over: whose turn it is, and the writes for it.

-- Gives the key to the requester in its mode. Its current value is the requester's own, or that of
-- holders that share the key with it.
local function take(s, tail, ttl)
  leave(s)
  if s.want.marker then return shares().share_out(s, me, s.want, ends_after(ttl), '-', tail) end
  local ms, awaited, number = ttl, s.queue and s.queue.length > 0, nil
  if s.value then
    ms, number = math.max(left(s), ttl), s.number
    awaited = awaited or is_awaited(s)
  end
  own(s, me, number, tail, ms, awaited)
end

-- A waiter without a nonce is of an older build, and expects the key at the end. Others do not get
-- the key's name, because anybody may listen.
local function push(s, letter, waiter, ...)
  told = told + 1
  if not is_silent(waiter.channel) then
    local words = { letter, waiter.digits, ... }
    if not waiter.nonce then words[#words + 1] = s.key elseif letter == 'g' then words[#words + 1] = waiter.nonce end
    pushes[#pushes + 1] = { waiter.channel, table.concat(words, ' ') }
  end
end

-- Gives the key to a waiter that was removed from the queue, and notifies it; false if there is no
-- fence for it.
local function hand(s, waiter)
  local queue, ms = s.queue, math.min(waiter.ttl, window)
  local last, follows = fence(s)
  if not follows then return push(s, 'a', waiter) end -- It is told why by the answer.
  -- Raise the fence even if this is not a grant yet: otherwise somebody who saw the previous holder
  -- could break this holding.
  remember(s, above(last), waiter.keep)
  local number = fence(s)
  if waiter.more then push(s, 'a', waiter) else push(s, 'g', waiter, number, whole(ms)) end
  if waiter.want.marker then
    shares().share_out(s, waiter.digits, waiter.want, ends_after(ms), waiter.channel == '' and '-' or waiter.channel, waiter.tail)
    s.shares.put[waiter.digits].fence = waiter.more and '-' or number
  else
    own(s, waiter.digits, number, waiter.tail, ms, queue.length > 0)
  end
  return true
end

-- Hands a key to the first waiter that can be notified, and to the waiters behind it, as long as
-- each fits. A waiter that does not fit, but is alive, blocks all waiters behind it. The requester
-- need not be notified. Returns whether nobody waits any more (`free`), the requester is first and
-- fits (`asking`), others hold the key or are before it (`taken`), or that is `unknown`, because
-- there were more new holders or dead waiters than one request handles.
local function hand_on(s, asks)
  local queue, done, handed = s.queue, 0, nil
  local function turn_of(head)
    local room = fits(s, head.want)
    if asks and head == queue.me then return room and 'asking' or 'taken' end
    if not room and not s.shared then return 'taken' end
    if done == CLEARED_AT_ONCE then return 'unknown' end
    local there = hears(s, head)
    if there and not room then return 'taken' end
    done = done + 1
    out(s, head)
    if there and hand(s, head) then handed = head end
  end
  local turn
  repeat
    local head = queue and first(s)
    turn = not head and 'free' or turn_of(head)
  until turn
  if turn == 'asking' then out(s, queue.me) end
  if turn == 'unknown' then unfinished[#unfinished + 1] = s.n end
  local second = handed and first(s)
  if second and second.channel then
    push(s, 'f', witness(s, handed.channel), whole(left(s)))
    if not handed.want.marker then queue.unclaimed = handed.digits .. ' ' .. handed.channel end
  end
  return turn
end

-- The same, once it is known that the previous new holder has claimed the key or let it end. A key
-- that nobody waits for may be taken in any case.
local function advance(s, asks)
  if s.unsettled then
    unfinished[#unfinished + 1] = s.n
    return 'unknown'
  end
  local queue = queue(s)
  if queue and queue.unclaimed then
    local digits, channel = string.match(queue.unclaimed, '^(%x+) (.*)$')
    if s.owner ~= digits then
      queue.unclaimed = false
      if channel then set_unresponsive(s, channel, true) end
    end
  end
  local turn = 'free'
  if not s.shared and (s.value or s.other) then turn = 'taken' elseif queue then turn = hand_on(s, asks) end
  put_back(s)
  return turn == 'free' and not fits(s, s.want) and 'taken' or turn
end

-- Frees a key if the requester holds it, removes the requester from its queue, and hands the key
-- over. If the first waiter has changed, the new one learns when to ask.
local function give_back(s)
  if holds(s) then
    if s.shared then shares().drop(s) else free(s) end
  end
  local queue = s.value and queue(s)
  local stood_first = queue and queue.me and first(s) == queue.me
  leave(s)
  local before = told
  advance(s)
  local head = stood_first and told == before and s.queue and first(s)
  if head and head.channel and left(s) >= 0 then push(s, 'f', head, whole(left(s))) end
end

local function write_queue(s, kept)
  local queue = s.queue
  if queue.me and queue.joined then
    redis.call('ZADD', s.queue_key, whole(queue.me.ticket), me)
    redis.call('HSET', s.waiters_key, me, queue.me.record)
  end
  for channel, unresponsive in pairs(queue.changed_channels) do
    if unresponsive then redis.call('HSET', s.waiters_key, 's:' .. channel, '') else redis.call('HDEL', s.waiters_key, 's:' .. channel) end
  end
  if queue.unclaimed ~= queue.was_unclaimed then
    if queue.unclaimed then redis.call('HSET', s.waiters_key, 'u', queue.unclaimed) else redis.call('HDEL', s.waiters_key, 'u') end
  end
  if queue.joined then
    redis.call('PEXPIREAT', s.queue_key, kept)
    redis.call('PEXPIREAT', s.waiters_key, kept)
  end
end

-- Writes the changes, sends the pushes, and returns the answer. Deletions come first: then a server
-- whose memory is full accepts the rest. A server sends the pushes of one script in reverse order:
-- so a new holder receives its push before mere observers, and of several the first of the queue.
local function finish(all, answer, kept)
  for _, s in ipairs(all) do
    if s.queue and s.queue.anew then
      redis.call('DEL', s.queue_key, s.waiters_key)
    elseif s.queue and #s.queue.gone > 0 then
      redis.call('ZREM', s.queue_key, unpack(s.queue.gone))
      redis.call('HDEL', s.waiters_key, unpack(s.queue.gone))
    end
    if s.void then
      redis.call('DEL', s.holders_key, s.shares_key)
    elseif s.shares and #s.shares.gone > 0 then
      redis.call('ZREM', s.holders_key, unpack(s.shares.gone))
      redis.call('HDEL', s.shares_key, unpack(s.shares.gone))
    end
    if s.changed and s.value then
      -- Servers before 6.0 have no KEEPTTL.
      local ms = s.left or redis.call('PTTL', s.key)
      if ms == -1 then redis.call('SET', s.key, s.value) else redis.call('SET', s.key, s.value, 'PX', math.max(ms, 1)) end
    elseif s.changed then
      redis.call('DEL', s.key)
    end
    if s.shares then shares().write(s) end
    if s.queue then write_queue(s, kept) end
  end
  for _, found in pairs(memories) do
    if found.keep and found.tag then
      redis.call('HSET', found.key, found.tag, found.last)
      keep_fences(found.key, found.keep)
    elseif found.keep then
      redis.call('SET', found.key, found.last, 'PX', found.keep)
    end
  end
  for n = #pushes, 1, -1 do redis.pcall('PUBLISH', pushes[n][1], pushes[n][2]) end
  answer[#answer + 1] = unfinished
  return answer
end

