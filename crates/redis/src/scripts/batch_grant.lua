-- Grants free keys without waiters, each to a different holder. Any other key is left unchanged, and its claim is
-- served by the single grant script, which handles queues, shares and other programs' values.
--
-- KEYS  for each claim two: the key, its waiters; then for each claim the fence of its key; at a member of a quorum one more: the
--       member key
-- ARGV  1  after this time on the server's clock, in µs since 1970, nothing is granted
--       2  the ttl of all claims, in ms
--       3  how long to remember their fences, in ms
--     and only at a member:
--       4  the run that vouches for its leases; empty: the URL says that the server forgets nothing
--       5  the longest ttl of the quorum, in ms
--     then for each claim:
--          the value of its lease
--          and only at a member: the proposed fence
--
-- Returns the server's time in µs, and for each claim its fence, or nothing. The time alone: too late for all.
--
-- Somebody waits only if the waiters' data are there: a queue without them has only dead waiters. Shares count only next to a marker,
-- which is a value of the key. A value of the wrong type counts for EXISTS, but reads as nothing in MGET.

local call, keys, argv = redis.call, KEYS, ARGV
local at_member = #keys % 3 == 1
local n = math.floor(#keys / 3)
local stride, before = at_member and 2 or 1, at_member and 5 or 3
local ttl, keep = argv[2], argv[3]

local clock = call('TIME')
local now, time = clock[1] * 1000000 + clock[2], clock[1] .. string.sub('00000' .. clock[2], -6)
local answer = { time }

local vouched = not at_member or argv[4] == ''
  or call('GET', keys[#keys]) == argv[4] and call('PTTL', keys[#keys]) >= KEPT / 2
if not vouched or at_member and tonumber(ttl) > tonumber(argv[5]) then
  for i = 1, n do answer[i + 1] = false end
  return answer
end
if now > tonumber(argv[1]) then return answer end

local lasts = call('MGET', unpack(keys, 2 * n + 1, 3 * n))
local known = 0
for i = 1, n do
  if lasts[i] then known = known + 1 end
end
-- True if the last fences are the only keys that exist.
local all_free = call('EXISTS', unpack(keys, 1, 3 * n)) == known

local function is_free(i)
  return all_free or call('EXISTS', keys[2 * i - 1], keys[2 * i]) == 0 and (lasts[i] or call('EXISTS', keys[2 * n + i]) == 0)
end

local function grant(i)
  local at, last = before + stride * (i - 1), lasts[i]
  local above, floor = 0, now
  if last then
    above = string.find(last, '^%d+$') and tonumber(last) + 1 or math.huge
    if above > FENCE_MAX then return false end
  end
  if at_member then floor = math.min(math.max(tonumber(argv[at + 2]), now - MARGIN), now + MARGIN) end
  if not is_free(i) or not call('SET', keys[2 * i - 1], argv[at + 1], 'NX', 'PX', ttl) then return false end
  local fence, kept = time, keep
  if last then kept = math.max(call('PTTL', keys[2 * n + i]), tonumber(keep)) end
  if at_member or above > now then fence = string.format('%.0f', math.max(above, floor)) end
  call('SET', keys[2 * n + i], fence, 'PX', kept)
  return fence
end

for i = 1, n do answer[i + 1] = grant(i) end
return answer
