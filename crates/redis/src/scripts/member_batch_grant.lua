-- Second part of the script of a batch at a member of a quorum: grants free keys without waiters as
-- that of a single server does, but each with the proposed fence of the quorum, or the next fence
-- of its key.
--
-- KEYS  for each grant its key; for each grant the waiters of its key; for each grant the fence key
--       of its key; and those of the last part
-- ARGV  1  the number of grants, at least one: releases alone need no member
--       2  after this time on the server's clock, in µs since 1970, nothing is granted
--       3  the ttl of all grants, in ms
--       4  how long to remember their fences, in ms
--     then for each grant two: the beginning of its value, before the fence, and what follows the
--     fence; the proposed fence
--
-- A fence key of the wrong type counts for EXISTS, but reads as nothing in MGET.

local call, keys, argv = redis.call, KEYS, ARGV
local grants, left, fences = tonumber(argv[1]), {}, {}
-- The last key and the last argument of this part.
local key, arg = 3 * grants, 4 + 2 * grants

local clock, ttl, keep, is_served = call('TIME'), argv[3], tonumber(argv[4]), serves(argv[3])
local now = clock[1] * 1000000 + clock[2]
local time = clock[1] .. string.sub('00000' .. clock[2], -6)
local low, high = now - MARGIN, now + MARGIN

local lasts, known = call('MGET', unpack(keys, 2 * grants + 1, 3 * grants)), 0
for i = 1, grants do
  if lasts[i] then known = known + 1 end
end
-- True if, of the waiters and the last fences, only fences exist.
local all_free = call('EXISTS', unpack(keys, grants + 1, 3 * grants)) == known

for i = 1, is_served and now > tonumber(argv[2]) and 0 or grants do
  local fence_key, value, fence, last, kept = keys[2 * grants + i], argv[3 + 2 * i], argv[4 + 2 * i], lasts[i], argv[4]
  local proposed = tonumber(fence)
  local next_fence = proposed < low and low or proposed > high and high or proposed
  if last then
    last = string.find(last, '^%d+$') and tonumber(last) or FENCE_MAX
    if last >= next_fence then next_fence = last + 1 end
    local ends = call('PTTL', fence_key)
    if ends > keep then kept = ends end
  end
  if next_fence ~= proposed then fence = next_fence <= FENCE_MAX and string.format('%.0f', next_fence) end
  local is_free = is_served and fence
    and (all_free or call('EXISTS', keys[grants + i]) == 0 and (last or call('EXISTS', fence_key) == 0))
  if is_free then
    value = #value == 37 and value .. fence or string.sub(value, 1, 37) .. fence .. string.sub(value, 38)
  end
  if is_free and call('SET', keys[i], value, 'NX', 'PX', ttl) then
    call('SET', fence_key, fence, 'PX', kept)
  else
    left[#left + 1] = i
  end
  fences[i] = fence or time
end

