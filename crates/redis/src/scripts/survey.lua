-- Says who holds each of some keys, and who waits for it. Writes nothing.
--
-- ARGV  none
--
-- An array of what an inspection of each key would answer, in their order, all at one moment.

local now, seen = time_now(), {}
for at = 0, #KEYS - 1, 6 do seen[#seen + 1] = look(at, now) end
return seen
