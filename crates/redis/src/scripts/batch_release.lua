-- Deletes keys that given holders have: exclusive leases of one key each, without waiters. For any
-- other lease, the single release script returns the holder and hands the key over.
--
-- KEYS  for each lease its key
-- ARGV  for each lease the beginning of its value, before the fence, which no other lease has
--
-- Returns how many leases there are, and the numbers of those that are not released, from 1.

local found, gone, left = redis.call('MGET', unpack(KEYS)), {}, {}
for i, beginning in ipairs(ARGV) do
  local is_held = found[i] and string.sub(found[i], 1, 37) == beginning
  if is_held then gone[#gone + 1] = KEYS[i] else left[#left + 1] = i end
end
if gone[1] then redis.call('DEL', unpack(gone)) end
return { #found, left }
