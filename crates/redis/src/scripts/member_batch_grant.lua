-- Grants free keys without waiters as the batch script of a single server does, but each with the
-- proposed fence of a quorum, or the next fence of its key.
--
-- KEYS  for each claim two: the key, its waiters; then for each claim the fence key of its key
-- ARGV  1  after this time on the server's clock, in µs since 1970, nothing is granted
--       2  the ttl of all claims, in ms
--       3  how long to remember their fences, in ms
--     then for each claim two: 32 digits of its holder, and its tail; the proposed fence
--
-- Returns the server's time in µs, and for each claim its fence, or nothing. The time alone: too
-- late for all.
--
-- A fence key of the wrong type counts for EXISTS, but reads as nothing in MGET.

local call, keys, argv = redis.call, KEYS, ARGV
local n, ttl, keep = #keys / 3, argv[2], tonumber(argv[3])

local clock = call('TIME')
local now, answer = clock[1] * 1000000 + clock[2], { clock[1] .. string.sub('00000' .. clock[2], -6) }
if now > tonumber(argv[1]) then return answer end

local lasts = call('MGET', unpack(keys, 2 * n + 1, 3 * n))
local known = 0
for i = 1, n do
  if lasts[i] then known = known + 1 end
end
-- True if the last fences are the only keys that exist.
local all_free = call('EXISTS', unpack(keys)) == known

local function is_free(i)
  return call('EXISTS', keys[2 * i - 1], keys[2 * i]) == 0 and (lasts[i] or call('EXISTS', keys[2 * n + i]) == 0)
end

local function grant(i)
  local above, kept, last = 0, keep, lasts[i]
  if last then
    above = string.find(last, '^%d+$') and tonumber(last) + 1 or math.huge
    if above > FENCE_MAX then return false end
    kept = math.max(call('PTTL', keys[2 * n + i]), keep)
  end
  local floor = math.min(math.max(tonumber(argv[3 + 2 * i]), now - MARGIN), now + MARGIN)
  local holder, fence = argv[2 + 2 * i], string.format('%.0f', math.max(above, floor))
  local value = 'lh1-' .. string.sub(holder, 1, 32) .. '.' .. fence .. string.sub(holder, 33)
  if not (all_free or is_free(i)) or not call('SET', keys[2 * i - 1], value, 'NX', 'PX', ttl) then return false end
  call('SET', keys[2 * n + i], fence, 'PX', kept)
  return fence
end

for i = 1, n do answer[i + 1] = grant(i) end
return answer
