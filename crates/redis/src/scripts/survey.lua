-- Returns the holders of several keys and their waiters. Writes nothing.
--
-- ARGV  none
--
-- An array of the answers that an inspection of each key would give, in their order, all at one
-- moment.

local now, seen = time_now(), {}
for at = 0, #KEYS - 1, 6 do seen[#seen + 1] = look(at, now) end
return seen
