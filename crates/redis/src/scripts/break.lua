-- Ends the lease on a key, whoever holds it, if it has the given fence; or the share with that
-- fence. Raises the fence of the key, and hands the key over.
--
-- KEYS  as for all scripts, with one key; behind them, the record of the break
-- ARGV  1  the fence
--       2  how long a key that is handed over may remain unclaimed, in ms
--       3  how long to remember the fence, in ms
--       4  the channel on which holders are notified of broken leases
--       5  for the record: a fence, a space, who breaks it, a line feed, why
--       6  how long to keep the record, in ms
--
-- The last field of each answer lists the keys that are free although somebody waits. The second
-- one is always 1.
--   0 1 value pttl      broken: the former value, and its remaining time
--   1 1 value pttl      it is held by this value, with another fence or none, or not by a lease; nothing is broken
--   3 1 pttl                  it has something that is not a string
--   6 1                       nobody holds it
--
-- A fence names one holding of its key: breaking a holding that was seen earlier does not affect
-- later ones.

local s = see(1)

-- The holder whose share has this fence.
if s.shared then
  local found = redis.call('HGETALL', s.shares_key)
  for i = 1, #found, 2 do
    local is_it = found[i] ~= 'n' and share_of(found[i + 1]).fence == ARGV[1]
    if is_it and (me == ARGV[1] or found[i] < me) then me = found[i] end
  end
end

settle(s)
local answer, said
if s.shared and s.shares.mine then
  local mine = s.shares.mine
  answer = { 0, 1, { s.value, me, whole(mine.weight), mine.fence, mine.tail }, mine.ends - now_ms }
  said = mine.tail
  shares().drop(s)
else
  answer = holding(s)
  if s.owner and s.number == ARGV[1] then
    answer[1], me, said = 0, s.owner, s.tail
    free(s)
  end
end

if answer[1] == 0 then
  -- As if its holder had released it: an unclaimed hand-over does not count against other waiters
  -- on its channel.
  local last, follows = fence(s)
  if follows then remember(s, above(last), tonumber(ARGV[3])) end
  leave(s)
  pushes[1] = { ARGV[4], 'b ' .. me }
end
advance(s)
answer = finish({ s }, answer)
-- Written last, and its failure is ignored: the lease is broken even if there is no memory for the
-- record.
if said then
  local record = time .. ' ' .. ARGV[5] .. '\n' .. string.sub(said, 2)
  redis.pcall('SET', KEYS[7], record, 'PX', ARGV[6])
end
return answer
