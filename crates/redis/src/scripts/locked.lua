-- Returns the numbers of the keys that have a string which begins like a lease or a marker, from 1.
-- Writes nothing.
--
-- KEYS  any
-- ARGV  none

local found = {}
for i, key in ipairs(KEYS) do
  local beginning = redis.pcall('GETRANGE', key, 0, 2)
  if beginning == 'lh1' then
    found[#found + 1] = i
  elseif type(beginning) == 'table' and not string.find(beginning.err, '^%-?WRONGTYPE') then
    return redis.call('GETRANGE', key, 0, 2) -- fails again, and so ends the script with that error
  end
end
return found
