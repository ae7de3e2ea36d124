-- Returns the holders of several keys and their waiters. Writes nothing.
--
-- ARGV  none
--
-- An array of the answers that an inspection of each key would give, in their order, all at one
-- moment; false for a key whose side keys have a wrong type.

local now, seen = time_now(), {}
for at = 0, #KEYS - 1, 6 do
  local is_read, state = pcall(look, at, now)
  if not is_read then
    -- Servers before 7.0 raise a text, which has no fields. Anything else fails again, and so ends the
    -- script.
    state = not string.find(state.err or state, 'WRONGTYPE') and look(at, now)
  end
  seen[#seen + 1] = state
end
return seen
