-- Takes back what a holder holds of the keys of a claim, and nothing else. The fences stay.
--
-- KEYS  1, 3, 5 …  the keys, in byte order;  2, 4, 6 …  the fence key of each
-- ARGV  1  32 digits of the holder
--
-- n counts the keys from 1, and is the first that the holder did not hold.
--   0                         released
--   1 n value pttl fence      somebody else holds key n, for so long (-1: no end); fence empty: unknown
--   3 n pttl                  key n has something that is no string
--   6 n                       nobody held key n
--
-- Whatever the answer, the keys that the holder held are free. All reads stand before the first write.

local holder = ARGV[1]

local own, answer = {}, nil
for i = 1, #KEYS, 2 do
  local found, other = read(KEYS[i])
  if found and is_own(found, holder) then
    own[#own + 1] = KEYS[i]
  elseif not answer then
    if other then
      answer = {3, (i + 1) / 2, redis.call('PTTL', KEYS[i])}
    elseif found then
      answer = {1, (i + 1) / 2, found, redis.call('PTTL', KEYS[i]), read(KEYS[i + 1]) or ''}
    else
      answer = {6, (i + 1) / 2}
    end
  end
end

for _, key in ipairs(own) do redis.call('DEL', key) end
return answer or {0}
