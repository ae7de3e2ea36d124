-- Part of each script that reads keys.
--
-- KEYS  six for each key of the claim: the key, its fence key, its queue, its waiters, its holders, their shares. The fence key
--       contains the last fence: at a member of a quorum that of the key, otherwise that of many keys.

-- The string at a key, or false; and whether it has something else.
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

-- A number in decimal digits, because Lua's own format may use an exponent.
local function whole(number) return string.format('%.0f', number) end

-- If a value is the marker of a shared key: the total that its holders may have (no limit if they
-- only share it), otherwise nil.
local function room_of(value)
  if value == 'lh1 shared' then return math.huge end
  local of = tonumber(string.match(value, '^lh1 permits ([1-9]%d*)$'))
  return of and of <= 1048576 and of or nil
end

-- The part of a waiter's record after its channel: the digits that prove a grant to it, or nil, and
-- the tail.
local NONCE = '^ (' .. string.rep('[0-9a-f]', 32) .. ')(.*)$'
local function nonce_of(behind)
  local nonce, tail = string.match(behind, NONCE)
  if tail == '' or tail and string.sub(tail, 1, 1) == ' ' then return nonce, tail end
  return nil, behind
end

-- The data of a share: its weight, its fence (-: none yet), the channel of its unclaimed hand-over
-- (-: it is claimed), and the tail.
local function share_of(record)
  local weight, fence, channel, tail = string.match(record or '', '^(%d+) ([^ ]*) ([^ ]*)(.*)$')
  return { weight = tonumber(weight or 0), fence = fence or '-', channel = channel or '-', tail = tail or '' }
end

