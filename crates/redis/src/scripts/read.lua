-- Stands before each script that looks at keys.

-- The string at a key, or false; and whether there is something else.
local function read(key)
  local found = redis.pcall('GET', key)
  if type(found) ~= 'table' then return found, false end
  if string.find(found.err, '^%-?WRONGTYPE') then return false, true end
  return redis.call('GET', key), false -- fails again, and so ends the script with that error
end

