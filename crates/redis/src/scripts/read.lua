-- Stands before each script that looks at keys.
--
-- KEYS  four for each key of the claim: the key, its fence, its line, its waiters.

-- The string at a key, or false; and whether there is something else.
local function read(key)
  local found = redis.pcall('GET', key)
  if type(found) ~= 'table' then return found, false end
  if string.find(found.err, '^%-?WRONGTYPE') then return false, true end
  return redis.call('GET', key), false -- fails again, and so ends the script with that error
end

-- The server's time, in µs since 1970.
local function time_now()
  local clock = redis.call('TIME')
  return tonumber(clock[1]) * 1000000 + tonumber(clock[2])
end

-- A number in decimal digits: Lua's own way has an exponent.
local function whole(number) return string.format('%.0f', number) end

