-- Deletes keys that still have given values: exclusive leases of one key each, without waiters. For any other lease, the single
-- release script returns the holder and hands the key over.
--
-- KEYS  for each lease its key
-- ARGV  for each lease the value that its grant wrote
--
-- Returns for each lease 1 if it was deleted, or 0.

local found, gone, answer = redis.call('MGET', unpack(KEYS)), {}, {}
for i, value in ipairs(ARGV) do
  answer[i] = found[i] == value and 1 or 0
  if answer[i] == 1 then gone[#gone + 1] = KEYS[i] end
end
if gone[1] then redis.call('DEL', unpack(gone)) end
return answer
