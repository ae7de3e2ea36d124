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
--       5  the proposed fence of all grants
--     then for each grant its value with that fence
--
-- Fences in the answer are the one that all grants have, and then the number and the fence of each
-- grant that has another one.

local call, keys, argv = redis.call, KEYS, ARGV
local grants, left, fences = tonumber(argv[1]), {}, {}
-- The last key and the last argument of this part.
local key, arg = 3 * grants, 5 + grants

local clock, ttl, keep, fence, is_served = call('TIME'), argv[3], argv[4], argv[5], serves(argv[3])
local now, proposed = clock[1] * 1000000 + clock[2], tonumber(fence)
local time = clock[1] .. string.sub('00000' .. clock[2], -6)
local least = math.min(math.max(proposed, now - MARGIN), now + MARGIN)
if least ~= proposed then fence = string.format('%.0f', least) end
-- No fence is kept for longer than twice the longest ttl, or this long.
local is_kept = 2 * longest <= tonumber(keep)

local lasts, known = call('MGET', unpack(keys, 2 * grants + 1, 3 * grants)), 0
for i = 1, grants do
  if lasts[i] then known = known + 1 end
end
-- True if, of the waiters and the last fences, only fences exist.
local all_free = call('EXISTS', unpack(keys, grants + 1, 3 * grants)) == known

if not is_served or now <= tonumber(argv[2]) then fences[1] = fence end
for i = 1, fences[1] and grants or 0 do
  local fence_key, value, last, its_fence, kept = keys[2 * grants + i], argv[5 + i], lasts[i], fence, keep
  -- A value of the wrong type reads as nothing in MGET.
  local is_free = is_served
    and (all_free or call('EXISTS', keys[grants + i]) == 0 and (last or call('EXISTS', fence_key) == 0))
  if last then
    last = string.find(last, '^%d+$') and tonumber(last) or FENCE_MAX
    if last >= least then its_fence = string.format('%.0f', last + 1) end
    is_free = is_free and last < FENCE_MAX
    if is_free and not is_kept then kept = math.max(kept, call('PTTL', fence_key)) end
  end
  if its_fence ~= argv[5] then
    value = string.sub(value, 1, 37) .. its_fence .. string.sub(value, 38 + #argv[5])
  end
  if is_free and call('SET', keys[i], value, 'NX', 'PX', ttl) then
    call('SET', fence_key, its_fence, 'PX', kept)
    if its_fence ~= fence then
      fences[#fences + 1] = i
      fences[#fences + 1] = its_fence
    end
  else
    left[#left + 1] = i
  end
end

