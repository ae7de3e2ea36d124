-- Part of each script that reads keys.
--
-- KEYS  six for each key of the claim: the key, its fence key, its queue, its waiters, its holders, their shares. The fence key
--       contains the last fence of many keys; at a member of a quorum, it has a field for each tag.

-- Longer than every value of ours. Of another program's value, so many bytes are read and answered: a
-- copy of a huge one would hold up the server, and the answers to all requests of a process share a
-- connection.
local LONGEST = 1024

-- The string at a key or in a field of a hash, or false; and whether the key has something else.
local function read(key, field)
  local command = field and { 'HGET', key, field } or { 'GETRANGE', key, 0, LONGEST }
  local found = redis.pcall(unpack(command))
  if type(found) ~= 'table' then
    -- No string and an empty one look alike.
    if found == '' and redis.call('EXISTS', key) == 0 then return false, false end
    return found and string.sub(found, 1, LONGEST), false
  end
  if string.find(found.err, '^%-?WRONGTYPE') then return false, true end
  return redis.call(unpack(command)), false -- fails again, and so ends the script with that error
end

-- The server's time, in µs since 1970.
local function time_now()
  local clock = redis.call('TIME')
  return tonumber(clock[1]) * 1000000 + tonumber(clock[2])
end

-- A number in decimal digits, because Lua's own format may use an exponent.
local function whole(number) return string.format('%.0f', number) end

-- Returns true if a value is the marker of a shared key.
local function is_marker(value)
  local of = tonumber(string.match(value, '^lh1 permits ([1-9]%d*)$'))
  return value == 'lh1 shared' or of and of <= 1048576
end

-- Returns true if nobody listens on a waiter's channel.
local function is_silent(channel) return channel == '' or string.sub(channel, 1, 1) == '?' end

-- The part of a waiter's record after its channel: the digits that prove a grant to it, or nil, and
-- the tail. Behind a silent channel there are none, and a label may look like them.
local function nonce_of(channel, behind)
  if is_silent(channel) then return nil, behind end
  local nonce, tail = string.match(behind, '^ ([0-9a-f]+)(.*)$')
  if nonce and #nonce == 32 and (tail == '' or string.sub(tail, 1, 1) == ' ') then return nonce, tail end
  return nil, behind
end

-- The data of a share: its weight, its fence (-: none yet), the channel of its unclaimed hand-over
-- (-: it is claimed), and the tail.
local function share_of(record)
  local weight, fence, channel, tail = string.match(record or '', '^(%d+) ([^ ]*) ([^ ]*)(.*)$')
  return { weight = tonumber(weight or 0), fence = fence or '-', channel = channel or '-', tail = tail or '' }
end

