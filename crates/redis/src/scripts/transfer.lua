
-- Makes a successor the holder of all keys of the claim, if its holder still holds them, and
-- extends the lease to a ttl from now. The fences remain.
--
-- ARGV  1  32 digits of the holder
--       2  how long a key that is transferred may remain unclaimed, in ms
--       3  the ttl, in ms
--       4  how long to remember the fence, in ms
--       5  32 digits of the successor
--       6  a space and the successor's label, or nothing
--       7  after this time on the server's clock, in µs since 1970, transfer nothing; empty: never
--
-- The last field of each answer lists the keys that are free although somebody waits. n counts the
-- keys from 1, and is the first key that the holder does not hold.
--   0                         transferred
--   1 n value pttl      somebody else holds key n, for so long (-1: no end); or it was too late, and the holder does
--   3 n pttl                  key n has something that is not a string
--   6 n                       nobody holds key n
--
-- No lease is shortened, as in a renewal.

local ttl, keep, successor, tail = tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5], ARGV[6]
local is_late = ARGV[7] ~= '' and now > tonumber(ARGV[7])

local all, answer = {}, nil
for n = 1, #KEYS / 6 do
  all[n] = see(n)
  settle(all[n])
  if is_late or not holds(all[n]) then answer = answer or holding(all[n]) end
end

for _, s in ipairs(all) do
  claim(s)
  if answer then
    advance(s)
  else
    put_back(s)
    if s.shared then
      shares().prolong(s, ends_after(ttl))
      shares().pass_on(s, successor, tail)
    else
      own(s, successor, s.number, tail, math.max(left(s), ttl), is_awaited(s))
    end
    keep_fences(s.fence_key, keep)
  end
end
return finish(all, answer or { 0 })
