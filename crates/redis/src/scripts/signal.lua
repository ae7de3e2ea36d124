-- Part of the release script if other libraries have their own waiters for the keys: each blocks on
-- a list (BLPOP) until an element wakes one of them, which then tries to take the key.
--
-- KEYS  behind those of all keys: for each key the list on which they block, or the key itself: nobody does
--
-- The parts that follow find their keys at the usual positions. A key that was handed to a waiter
-- of ours is not free, and nobody is woken for it.

local SIGNAL_KEPT = 1000

local sleepers = {}
for n = #KEYS / 7, 1, -1 do sleepers[n] = table.remove(KEYS) end

-- At most one element, which lasts long enough for a waiter that has just failed to take the key
-- and is about to block. If the list's key has something that is not a list, it may be somebody's
-- lock, and is kept. No failure here undoes a release, which was written before.
local function wake(sleeper)
  local length = redis.pcall('LPUSH', sleeper, 1)
  if type(length) ~= 'number' then return end
  if length > 1 then
    redis.pcall('DEL', sleeper)
    redis.pcall('LPUSH', sleeper, 1)
  end
  redis.pcall('PEXPIRE', sleeper, SIGNAL_KEPT)
end

local written = finish
local function finish(all, answer)
  local answered = written(all, answer)
  for n, s in ipairs(all) do
    if s.changed and not s.value and sleepers[n] ~= s.key then wake(sleepers[n]) end
  end
  return answered
end

