-- Second part of the script of a batch at a member of a quorum: grants free keys without waiters as
-- that of a single server does, but each with the proposed fence of the quorum, or one more than
-- the last fence of its tag, if that is greater.
--
-- KEYS  for each grant its key; for each grant the waiters of its key; the fence keys; and those of
--       the last part
-- ARGV  1  the number of fence keys, at least one: releases alone need no member
--       2  after this time on the server's clock, in µs since 1970, nothing is granted
--       3  the ttl of all grants, in ms
--       4  how long to remember their fences, in ms
--       5  the proposed fence of all grants, which is the expected one
--     then for each fence key the number of its grants, which are the next ones;
--     then for each grant the tag of its key, which is the field of its last fence;
--     then for each grant its value with the proposed fence
--
-- Fences in the answer are the one that all grants have, and then the number and the fence of each
-- grant that has another one.

-- Without a field of more than 64 bytes, a server keeps a small hash as a list, and searches all of
-- it for each field.
local ABOUT = 'the last fences of the keys that begin with the same part, by their tags'

local call, keys, argv = redis.call, KEYS, ARGV
local grants, left, fences, fence_keys = 0, {}, {}, nil
for nth = 1, argv[1] do grants, fence_keys = grants + argv[5 + nth], nth end
local tags, values = 5 + fence_keys, 5 + fence_keys + grants
-- The last key and the last argument of this part.
local key, arg = 2 * grants + fence_keys, values + grants

local clock, not_after, ttl, keep, fence, is_served = call('TIME'), argv[2], argv[3], argv[4], argv[5], serves(argv[3])
local now, proposed = clock[1] * 1000000 + clock[2], tonumber(fence)
local time = clock[1] .. string.sub('00000' .. clock[2], -6)
local least = math.min(math.max(proposed, now - MARGIN), now + MARGIN)
local as_expected = least == proposed
if not as_expected then fence = string.format('%.0f', least) end
local nobody_waits = call('EXISTS', unpack(keys, grants + 1, 2 * grants)) == 0
-- Of the same length, the smaller text is the smaller number.
local is_late = is_served and (#not_after < #time or #not_after == #time and not_after < time)

if is_late then time = '-' .. time else fences[1] = fence end
local i = 0
for nth = 1, is_late and 0 or fence_keys do
  local fence_key, count, new, is_known = keys[2 * grants + nth], argv[5 + nth], {}, true
  -- An error if it is not a hash.
  local lasts = redis.pcall('HMGET', fence_key, unpack(argv, tags + i + 1, tags + i + count))
  for at = 1, count do
    i = i + 1
    local value, last, its_fence = argv[values + i], lasts[at], fence
    local is_free = is_served and last ~= nil and (nobody_waits or call('EXISTS', keys[grants + i]) == 0)
    if last and (#last ~= #fence or last >= fence) then
      last = string.find(last, '^%d+$') and tonumber(last) or FENCE_MAX
      if last >= least then its_fence = string.format('%.0f', last + 1) end
      is_free = is_free and last < FENCE_MAX
    end
    if its_fence ~= argv[5] then
      value = string.sub(value, 1, 37) .. its_fence .. string.sub(value, 38 + #argv[5])
    end
    if is_free and call('SET', keys[i], value, 'NX', 'PX', ttl) then
      new[#new + 1] = argv[tags + i]
      new[#new + 1] = its_fence
      is_known = is_known and last
      if its_fence ~= fence then
        as_expected = false
        fences[#fences + 1] = i
        fences[#fences + 1] = its_fence
      end
    else
      left[#left + 1] = i
    end
  end
  if new[1] then
    if not is_known then
      new[#new + 1] = 'about'
      new[#new + 1] = ABOUT
    end
    call('HSET', fence_key, unpack(new))
    if call('PTTL', fence_key) < tonumber(keep) then call('PEXPIRE', fence_key, keep) end
  end
end

