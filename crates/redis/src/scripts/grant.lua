-- Gives a holder all keys of a claim, or none. Asking again with the same holder is no different from asking.
--
-- KEYS  1, 3, 5 …  the keys, in byte order;  2, 4, 6 …  the fence key of each
-- ARGV  1  the value to write: lh1, a flag, 32 digits of the holder, and maybe a space and a label
--       2  the ttl, in ms
--       3  how long to remember the fence, in ms
--       4  past this time on the server's clock, in µs since 1970, do nothing; empty: never
--
-- The last field of each answer is the server's time in µs. n counts the keys from 1.
--   0 fence time                         granted; the fence is new to each of the keys
--   1 n value pttl fence time            key n is taken, by this value, for so long (-1: no end); fence empty: unknown
--   2 time                               too late
--   3 n time                             key n has something that is no string
--   4 n time                             the fence of key n is the last that a double can count
--   5 n time                             the fence key of key n holds something that is no number
--
-- Nothing is written unless the answer is 0. All reads stand before the first write; if that is refused (out of memory,
-- a replica) nothing was done, and if it is not, nor are the rest: they are the same command.
-- A value that is not this holder's is never overwritten. A lease that this holder has is never made shorter: a grant that was
-- delayed on its way would else cut off the renewal that overtook it.

local FENCE_MAX = 9007199254740991
local value, ttl, keep, not_after = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local holder = string.sub(value, 5, 36)
local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000000 + tonumber(clock[2])
local time = string.format('%.0f', now)

if not_after ~= '' and now > tonumber(not_after) then return {2, time} end

local found, highest = {}, now - 1
for i = 1, #KEYS, 2 do
  local value, other = read(KEYS[i])
  if other then return {3, (i + 1) / 2, time} end
  found[i] = value
  local last, odd = read(KEYS[i + 1])
  if odd or last and not string.find(last, '^%d+$') then return {5, (i + 1) / 2, time} end
  if last and tonumber(last) >= FENCE_MAX then return {4, (i + 1) / 2, time} end
  if last then highest = math.max(highest, tonumber(last)) end
end

local values, ttls, keeps = {}, {}, {}
for i = 1, #KEYS, 2 do
  values[i], ttls[i] = value, ttl
  keeps[i] = math.max(redis.call('PTTL', KEYS[i + 1]), keep)
  if found[i] then
    if not is_own(found[i], holder) then
      return {1, (i + 1) / 2, found[i], redis.call('PTTL', KEYS[i]), read(KEYS[i + 1]) or '', time}
    end
    ttls[i] = math.max(redis.call('PTTL', KEYS[i]), ttl)
    -- Whoever waits for it must not be forgotten.
    if string.sub(found[i], 4, 4) == '+' then values[i] = 'lh1+' .. string.sub(value, 5) end
  end
end

local fence = string.format('%.0f', highest + 1)
for i = 1, #KEYS, 2 do
  redis.call('SET', KEYS[i], values[i], 'PX', ttls[i])
  redis.call('SET', KEYS[i + 1], fence, 'PX', keeps[i])
end
return {0, fence, time}
