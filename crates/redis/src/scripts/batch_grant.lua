-- Grants free keys without waiters, each to a different holder. Any other key is left unchanged,
-- and its claim is served by the single grant script, which handles queues, shares and other
-- programs' values.
--
-- KEYS  for each claim two: the key, its waiters; then the fence keys
-- ARGV  1  after this time on the server's clock, in µs since 1970, nothing is granted
--       2  the ttl of all claims, in ms
--       3  how long to remember their fences, in ms
--     then for each fence key the number of its claims, which are the next ones;
--     then for each claim 32 digits of its holder, and its tail: nothing, or a space and the label
--
-- Returns the server's time in µs; for each fence key the fence that all its claims have; and the
-- numbers of the claims that are not granted, from 1. The time alone: too late for all.
--
-- Somebody waits only if the waiters' data are there: a queue without them has only dead waiters.
-- Shares count only next to a marker, which is a value of the key.

local call, keys, argv = redis.call, KEYS, ARGV
local n = #keys - #argv + 3
local before = #argv - n
local ttl, keep = argv[2], tonumber(argv[3])

local clock = call('TIME')
local now, time = clock[1] * 1000000 + clock[2], clock[1] .. string.sub('00000' .. clock[2], -6)
if now > tonumber(argv[1]) then return { time } end

local all_free = call('EXISTS', unpack(keys, 1, 2 * n)) == 0

-- The next fence, and how long to remember it; nil: the fence key is of no use here.
local function next_fence(fence_key)
  local last = redis.pcall('GET', fence_key)
  if not last then return time, keep end
  local above = type(last) == 'string' and string.find(last, '^%d+$') and tonumber(last) + 1 or math.huge
  if above > FENCE_MAX then return nil end
  return above > now and string.format('%.0f', above) or time, math.max(call('PTTL', fence_key), keep)
end

local function grant(i, fence)
  if not all_free and call('EXISTS', keys[2 * i - 1], keys[2 * i]) > 0 then return false end
  local holder = argv[before + i]
  local value = 'lh1-' .. string.sub(holder, 1, 32) .. '.' .. fence .. string.sub(holder, 33)
  return call('SET', keys[2 * i - 1], value, 'NX', 'PX', ttl)
end

local fences, left, i = {}, {}, 0
for nth = 1, before - 3 do
  local fence_key, granted = keys[2 * n + nth], false
  local fence, kept = next_fence(fence_key)
  for _ = 1, tonumber(argv[3 + nth]) do
    i = i + 1
    if fence and grant(i, fence) then granted = true else left[#left + 1] = i end
  end
  if granted then call('SET', fence_key, fence, 'PX', kept) end
  fences[nth] = fence or time
end
return { time, fences, left }
