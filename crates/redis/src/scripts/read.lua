-- Stands before each script that looks at keys.
--
-- KEYS  six for each key of the claim: the key, its fence, its line, its waiters, its holders, their shares.

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

-- Whether a value says that several hold the key at once: how much they may have in all (no end if they only share it), or nil.
local function room_of(value)
  if value == 'lh1 shared' then return math.huge end
  local of = tonumber(string.match(value, '^lh1 permits ([1-9]%d*)$'))
  return of and of <= 1048576 and of or nil
end

-- What stands behind the channel of a waiter: the digits that prove a grant to it, or nil, and the tail.
local NONCE = '^ (' .. string.rep('[0-9a-f]', 32) .. ')(.*)$'
local function nonce_of(behind)
  local nonce, tail = string.match(behind, NONCE)
  if tail == '' or tail and string.sub(tail, 1, 1) == ' ' then return nonce, tail end
  return nil, behind
end

-- What is known of a share: its weight, its fence (-: none yet), where its holder was told of it that has not been heard since
-- (-: it has been), and the tail.
local function share_of(record)
  local weight, fence, channel, tail = string.match(record or '', '^(%d+) ([^ ]*) ([^ ]*)(.*)$')
  return { weight = tonumber(weight or 0), fence = fence or '-', channel = channel or '-', tail = tail or '' }
end

