-- Says of the keys of a claim that what they stand for was done, if a holder still holds them all.
--
-- KEYS  three for each key of the claim: the key, its fence, its mark
-- ARGV  1  32 digits of the holder
--       2  the mark
--       3  how long to keep it, in ms
--
-- n counts the keys from 1, and is the first that the holder does not hold; then nothing is written.
--   0                         marked
--   1 n value pttl fence      somebody else holds key n, for so long (-1: no end); fence empty: unknown
--   3 n pttl                  key n has something that is no string
--   6 n                       nobody holds key n

local LEASE = '^lh1[-+?]' .. ARGV[1] .. '(.?)'

for n = 1, #KEYS / 3 do
  local key = KEYS[3 * n - 2]
  local value, other = read(key)
  if other then return { 3, n, redis.call('PTTL', key) } end
  if not value then return { 6, n } end
  local behind = string.match(value, LEASE)
  if behind ~= '' and behind ~= ' ' then
    return { 1, n, value, redis.call('PTTL', key), read(KEYS[3 * n - 1]) or '' }
  end
end

for n = 1, #KEYS / 3 do redis.call('SET', KEYS[3 * n], ARGV[2], 'PX', ARGV[3]) end
return { 0 }
