-- First part of the script of a batch: grants free keys without waiters, each to a different
-- holder. Any other key is left unchanged, and its claim is served by the single grant script,
-- which handles queues, shares and other programs' values.
--
-- KEYS  for each grant its key; for each grant the waiters of its key; the fence keys; and those of
--       the second part
-- ARGV  1  the number of fence keys; without any there are no grants, and the arguments of the
--          second part follow
--       2  after this time on the server's clock, in µs since 1970, nothing is granted
--       3  the ttl of all grants, in ms
--       4  how long to remember their fences, in ms
--     then for each fence key the number of its grants, which are the next ones;
--     then for each grant the beginning of its value, before the fence, and what follows the fence:
--     nothing, or a space and the label
--
-- The expected fence of a grant is the server's time.
--
-- Somebody waits only if the waiters' data are there: a queue without them has only dead waiters.
-- Shares count only next to a marker, which is a value of the key.
--
-- A conversion between a text and a number costs a server half as much as a command. So the time is
-- compared with the deadline as a text: of the same length, the smaller text is the smaller number.

local call, keys, argv = redis.call, KEYS, ARGV
local grants, left, time, as_expected, fences, fence_keys = 0, {}, '+', true, {}, nil
for nth = 1, argv[1] do grants, fence_keys = grants + argv[4 + nth], nth end
-- The last key and the last argument of this part.
local key, arg = 0, 1

if grants > 0 then
  local clock, not_after, ttl, keep, i = call('TIME'), argv[2], argv[3], argv[4], 0
  time, key, arg = clock[1] .. string.sub('00000' .. clock[2], -6), 2 * grants + fence_keys, 4 + fence_keys
  local is_late = #not_after < #time or #not_after == #time and not_after < time
  local nobody_waits = call('EXISTS', unpack(keys, grants + 1, 2 * grants)) == 0
  for nth = 1, is_late and 0 or fence_keys do
    -- The next fence, and how long to remember it; false: the fence key is of no use here.
    local fence_key, fence, kept, granted = keys[2 * grants + nth], time, keep, false
    local last = redis.pcall('GET', fence_key)
    if last then
      local above = type(last) == 'string' and string.find(last, '^%d+$') and last + 1 or math.huge
      if above > tonumber(time) then fence = above <= FENCE_MAX and string.format('%.0f', above) end
      local ends = call('PTTL', fence_key)
      if ends > tonumber(keep) then kept = ends end
    end
    for _ = 1, argv[4 + nth] do
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
    as_expected = as_expected and fences[nth] == time
  end
  if is_late then time = '-' .. time end
  arg = arg + grants
end

