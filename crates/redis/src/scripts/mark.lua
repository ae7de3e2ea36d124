-- Marks the keys of a claim as done, if a holder still holds them all exclusively.
--
-- KEYS  behind those of all keys: the mark of each
-- ARGV  1  32 digits of the holder
--       2  the mark
--       3  how long to keep it, in ms
--
-- n counts the keys from 1, and is the first key that the holder does not hold; then nothing is
-- written.
--   0                         marked
--   1 n value pttl      another holder holds key n, or several do, for so long (-1: no end)
--   3 n pttl                  key n has something that is not a string
--   6 n                       nobody holds key n

local count, answer = #KEYS / 7, nil
for n = 1, count do
  local s = see(n)
  settle(s)
  if s.owner ~= me then answer = answer or holding(s) end
end
if answer then return answer end

for n = 1, count do redis.call('SET', KEYS[6 * count + n], ARGV[2], 'PX', ARGV[3]) end
return { 0 }
