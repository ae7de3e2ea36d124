-- At a member of a quorum: raises the fences of what a holder holds to the proposed one, if they
-- are smaller. If another holder of a shared key may have that fence, the new one is one more than
-- the last, so that no two holders have the same. The lease is not extended.
--
-- ARGV  1  32 digits of the holder
--       2  how long a key that is handed over may remain unclaimed, in ms
--       3  how long to remember the fence, in ms
--
-- The last field of each answer lists the keys that are free although somebody waits. n counts the
-- keys from 1, and is the first key that the holder does not hold.
--   0 fence                   the fences are now this one
--   1 n value pttl      somebody else holds key n, for so long (-1: no end)
--   3 n pttl                  key n has something that is not a string
--   5 n name                  the fence key of key n, of this name, contains something that is not a number; nothing is written
--   6 n                       nobody holds key n

local keep = tonumber(ARGV[3])

local all, answer, greatest = {}, nil, proposed
for n = 1, #KEYS / 6 do
  local s = see(n)
  settle(s)
  local last = tonumber(fence(s) or 0) or 0
  if s.odd then return { 5, n, s.fence_key, {} } end
  if not holds(s) then
    answer = answer or holding(s)
  elseif s.shared then
    local mine = tonumber(s.shares.mine.fence)
    if mine and mine >= proposed then
      last = mine
    elseif last >= proposed then
      last = math.min(last + 1, FENCE_MAX)
    end
  end
  greatest = math.max(greatest, last)
  all[n] = s
end

for _, s in ipairs(all) do
  if answer then
    advance(s)
  else
    agree_on(s, greatest, keep)
    if s.shared then shares().stamp(s, greatest) end
  end
end
return finish(all, answer or { 0, whole(greatest) })
