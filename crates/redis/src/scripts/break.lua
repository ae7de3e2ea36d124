-- Ends the lease on a key, whoever holds it, if its fence is the one that is named; or the share with that fence. Raises the fence of
-- the key, and hands it on.
--
-- KEYS  as for all: here one key; behind them, where the break is recorded
-- ARGV  1  the fence
--       2  how long a key that is handed over may remain unclaimed, in ms
--       3  how long to remember the fence, in ms
--       4  the channel at which holders hear that their lease was broken
--       5  who breaks it, a line feed, why: for the record
--       6  how long to keep the record, in ms
--
-- The last field of each answer says which keys are free although somebody waits. The second one is always 1.
--   0 1 value pttl fence      broken: it was held by this value, and would have been for so long
--   1 1 value pttl fence      it is held by this value, with another fence (empty: unknown) or by no lease; nothing is broken
--   3 1 pttl                  it has something that is no string
--   6 1                       nobody holds it
--
-- A fence names one holding of its key. Whoever broke what it saw earlier breaks nothing of what has come since.

local s = see(1)

-- Whose share has this fence.
if s.room then
  local found = redis.call('HGETALL', s.shares_key)
  for i = 1, #found, 2 do
    local is_it = found[i] ~= 'n' and share_of(found[i + 1]).fence == ARGV[1]
    if is_it and (me == ARGV[1] or found[i] < me) then me = found[i] end
  end
end

settle(s)
local last, follows = fence(s)
local answer, said
if s.room and s.shares.mine then
  local mine = s.shares.mine
  answer = { 0, 1, { s.value, me, whole(mine.weight), mine.tail }, mine.ends - now_ms, mine.fence }
  said = mine.tail
  shares().drop(s)
else
  answer = holding(s)
  if s.owner and last == ARGV[1] then
    answer[1], me = 0, s.owner
    said = string.sub(s.value, 37)
    free(s)
  end
end

if answer[1] == 0 then
  -- As if its holder let it go: what was handed to it is not held against its neighbours.
  if follows then remember(s, above(last), tonumber(ARGV[3])) end
  leave(s)
  pushes[1] = { ARGV[4], 'b ' .. me }
end
advance(s)
answer = finish({ s }, answer)
-- Last, and not at any price: the lease is broken also where there is no room for the record.
if said then
  local record = time .. ' ' .. ARGV[1] .. ' ' .. ARGV[5] .. '\n' .. string.sub(said, 2)
  redis.pcall('SET', KEYS[7], record, 'PX', ARGV[6])
end
return answer
