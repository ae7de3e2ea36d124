-- Releases what a holder holds of the keys of a claim, and its places in their queues, and nothing
-- else; hands free keys over. The fences are kept.
--
-- ARGV  1  32 digits of the holder
--       2  how long a key that is handed over may remain unclaimed, in ms
--
-- The last field of each answer lists the keys that are free although somebody waits. n counts the
-- keys from 1, and is the first key that the holder did not hold.
--   0                         released
--   1 n value pttl      somebody else held key n, for so long (-1: no end)
--   3 n pttl                  key n has something that is not a string
--   6 n                       nobody held key n
--
-- Whatever the answer, the holder then holds none of the keys, and is in none of their queues.

local all, answer = {}, nil
for n = 1, #KEYS / 6 do
  all[n] = see(n)
  settle(all[n])
  if not holds(all[n]) then answer = answer or holding(all[n]) end
end
for _, s in ipairs(all) do give_back(s) end
return finish(all, answer or { 0 })
