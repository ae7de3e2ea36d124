-- Stands before the script that releases, where other programs wait for the keys in a way of their own: each sleeps on a list
-- (BLPOP) until an element wakes one of them, who then tries to take the key.
--
-- KEYS  behind those of all keys: where they sleep who wait for each, or the key itself: nobody does
--
-- What follows finds its own keys where they always are. A key that was handed to a waiter of ours is not free, and nobody is woken
-- for it.

local SIGNAL_KEPT = 1000

local sleepers = {}
for n = #KEYS / 7, 1, -1 do sleepers[n] = table.remove(KEYS) end

-- One element and no more, for as long as somebody who had just looked in vain may take to lie down. What lies there and is no list
-- is somebody's lock, and stays. Nothing of this undoes a release: that was written before.
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
    if s.how and not s.value and sleepers[n] ~= s.key then wake(sleepers[n]) end
  end
  return answered
end

