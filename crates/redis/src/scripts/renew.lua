-- Lets a lease last a ttl from now, if its holder still holds all keys of the claim.
--
-- KEYS  1, 3, 5 …  the keys, in byte order;  2, 4, 6 …  the fence key of each
-- ARGV  1  32 digits of the holder
--       2  the ttl, in ms
--       3  how long to remember the fence, in ms
--
-- n counts the keys from 1, and is the first that the holder does not hold.
--   0                         renewed
--   1 n value pttl fence      somebody else holds key n, for so long (-1: no end); fence empty: unknown
--   3 n pttl                  key n has something that is no string
--   6 n                       nobody holds key n
--
-- Nothing is written unless the answer is 0, and then only ttls, which are never made shorter: a renewal that was delayed on
-- its way would else cut off the one that overtook it. All reads that can fail stand before the first write.

local holder, ttl, keep = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])

for i = 1, #KEYS, 2 do
  local found, other = read(KEYS[i])
  if other then return {3, (i + 1) / 2, redis.call('PTTL', KEYS[i])} end
  if not found then return {6, (i + 1) / 2} end
  if not is_own(found, holder) then
    return {1, (i + 1) / 2, found, redis.call('PTTL', KEYS[i]), read(KEYS[i + 1]) or ''}
  end
end

for i = 1, #KEYS, 2 do
  if redis.call('PTTL', KEYS[i]) < ttl then redis.call('PEXPIRE', KEYS[i], ARGV[2]) end
  if redis.call('PTTL', KEYS[i + 1]) < keep then redis.call('PEXPIRE', KEYS[i + 1], ARGV[3]) end
end
return {0}
