-- Takes back what a holder holds of the keys of a claim and where it waits for them, and nothing else; hands on what is free. The
-- fences stay.
--
-- ARGV  1  32 digits of the holder
--       2  how long a key that is handed over may remain unclaimed, in ms
--
-- The last field of each answer says which keys are free although somebody waits. n counts the keys from 1, and is the first that
-- the holder did not hold.
--   0                         released
--   1 n value pttl fence      somebody else held key n, for so long (-1: no end); fence empty: unknown
--   3 n pttl                  key n has something that is no string
--   6 n                       nobody held key n
--
-- Whatever the answer, the holder holds none of the keys any more, and stands in no line for them.

local all, answer = {}, nil
for n = 1, #KEYS / 6 do
  all[n] = see(n)
  settle(all[n])
  if not holds(all[n]) then answer = answer or holding(all[n]) end
end
for _, s in ipairs(all) do give_back(s) end
return finish(all, answer or { 0 })
