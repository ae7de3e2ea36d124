-- First part of the script of a batch: grants free keys without waiters, each to a different
-- holder. Any other key is left unchanged, and its claim is served by the single grant script,
-- which handles queues, shares and other programs' values.
--
-- KEYS  for each grant its key; for each grant the waiters of its key; the fence keys; and those of
--       the second part
-- ARGV  1  the number of grants; without any, the arguments of the second part follow
--       2  after this time on the server's clock, in µs since 1970, nothing is granted
--       3  the ttl of all grants, in ms
--       4  how long to remember their fences, in ms
--       5  the number of fence keys
--     then for each fence key the number of its grants, which are the next ones;
--     then for each grant the beginning of its value, before the fence, and what follows the fence:
--     nothing, or a space and the label
--
-- Somebody waits only if the waiters' data are there: a queue without them has only dead waiters.
-- Shares count only next to a marker, which is a value of the key.

local call, keys, argv = redis.call, KEYS, ARGV
local grants, left, time, fences = tonumber(argv[1]), {}, false, {}
-- The last key and the last argument of this part.
local key, arg = 0, 1

if grants > 0 then
  local clock, ttl, keep, fence_keys = call('TIME'), argv[3], tonumber(argv[4]), tonumber(argv[5])
  local now, i = clock[1] * 1000000 + clock[2], 0
  time, key, arg = clock[1] .. string.sub('00000' .. clock[2], -6), 2 * grants + fence_keys, 5 + fence_keys
  local nobody_waits = call('EXISTS', unpack(keys, grants + 1, 2 * grants)) == 0
  for nth = 1, now > tonumber(argv[2]) and 0 or fence_keys do
    -- The next fence, and how long to remember it; false: the fence key is of no use here.
    local fence_key, fence, kept, granted = keys[2 * grants + nth], time, argv[4], false
    local last = redis.pcall('GET', fence_key)
    if last then
      local above = type(last) == 'string' and string.find(last, '^%d+$') and tonumber(last) + 1 or math.huge
      if above > now then fence = above <= FENCE_MAX and string.format('%.0f', above) end
      local ends = call('PTTL', fence_key)
      if ends > keep then kept = ends end
    end
    for _ = 1, argv[5 + nth] do
      i = i + 1
      local value, is_free = argv[arg + i], fence and (nobody_waits or call('EXISTS', keys[grants + i]) == 0)
      if is_free then
        value = #value == 37 and value .. fence or string.sub(value, 1, 37) .. fence .. string.sub(value, 38)
      end
      if is_free and call('SET', keys[i], value, 'NX', 'PX', ttl) then
        granted = true
      else
        left[#left + 1] = i
      end
    end
    if granted then call('SET', fence_key, fence, 'PX', kept) end
    fences[nth] = fence or time
  end
  arg = arg + grants
end

