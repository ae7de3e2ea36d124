-- Extends exclusive leases of one key each to a TTL from now, if nobody waits for them. Any other
-- lease is renewed by the single renewal script.
--
-- KEYS  for each lease its key; then their fence keys
-- ARGV  1  how long to remember their fences, in ms
--       2  the ttl of all leases, in ms
--     then for each lease the beginning of its value, before the fence, which no other lease has
--
-- Returns a text: a plus sign if all leases are renewed, or the numbers of those that are not, from 1.
-- No lease is shortened, and no fence is forgotten sooner. Every lease is written, also one that lasts
-- longer already: `WAIT` confirms only what its connection has written.

local call, keys, argv = redis.call, KEYS, ARGV
local n = #argv - 2

local found, left, keep, ttl = call('MGET', unpack(keys, 1, n)), {}, tonumber(argv[1]), tonumber(argv[2])
for i = 1, n do
  local is_held = found[i] and string.sub(found[i], 1, 37) == argv[2 + i]
  if is_held then
    local lasts = call('PTTL', keys[i])
    call('PEXPIRE', keys[i], lasts < ttl and argv[2] or lasts)
  else
    left[#left + 1] = i
  end
end
for i = n + 1, #left < n and #keys or 0 do
  if call('PTTL', keys[i]) < keep then call('PEXPIRE', keys[i], argv[1]) end
end
return left[1] and table.concat(left, ' ') or '+'
