-- Last part of the script of a batch: deletes keys that given holders have, which are exclusive
-- leases of one key each, without waiters. For any other lease, the single release script returns the
-- holder and hands the key over.
--
-- KEYS  for each release its key
-- ARGV  for each release the beginning of its value, before the fence, which no other lease has
--
-- Returns a text, which a server makes sooner than a list. It begins with the server's time in µs,
-- after a minus sign if it was too late for all grants; without any grants, with a plus sign. That is
-- all if every grant and release is done, and every grant has the expected fence. Otherwise a bar
-- follows, the numbers of those that are not done, from 1, another bar, and for each fence key the
-- fence that all its grants have; no fences if it was too late.

local releases = #keys - key
if releases > 0 then
  local found, gone = call('MGET', unpack(keys, key + 1)), {}
  for i = 1, releases do
    local is_held = found[i] and string.sub(found[i], 1, 37) == argv[arg + i]
    if is_held then gone[#gone + 1] = keys[key + i] else left[#left + 1] = grants + i end
  end
  if gone[1] then call('DEL', unpack(gone)) end
end
if as_expected and not left[1] then return time end
return time .. '|' .. table.concat(left, ' ') .. '|' .. table.concat(fences, ' ')
