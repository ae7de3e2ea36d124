-- Extends a lease to a ttl from now, if its holder still holds all keys of the claim. If it has a
-- key alone and wants to read it, the lease becomes a share, and the readers who wait next are let
-- in.
--
-- ARGV  1  32 digits of the holder
--       2  how long a key that is handed over may remain unclaimed, in ms
--       3  the ttl, in ms
--       4  how long to remember the fence, in ms
--       5  the mode of each key, as in a grant
--
-- The last field of each answer lists the keys that are free although somebody waits. n counts the
-- keys from 1, and is the first key that the holder does not hold.
--   0                         renewed
--   1 n value pttl      somebody else holds key n, for so long (-1: no end)
--   3 n pttl                  key n has something that is not a string
--   6 n                       nobody holds key n
--  11                         the ttl is longer than the quorum's longest; nothing is written
--
-- No lease is shortened: otherwise a delayed renewal could cut off the one that overtook it. Every
-- lease is written, also one that lasts longer already: `WAIT` confirms only what its connection has
-- written. Even if the renewal came too late, its sender is alive, and has claimed what was handed to
-- it.

local ttl, keep = tonumber(ARGV[3]), tonumber(ARGV[4])

if ttl > longest then return { 11, time, {} } end

local all, answer = {}, nil
for mode in string.gmatch(ARGV[5], '[^ ]+') do
  local n = #all + 1
  all[n] = see(n, wanted(mode))
  settle(all[n])
  if not holds(all[n]) then answer = answer or holding(all[n]) end
end

for _, s in ipairs(all) do
  -- Only a key with waiters was ever handed over unclaimed.
  if answer or is_awaited(s) then claim(s) end
  if answer then advance(s) else put_back(s) end
end

if not answer then
  answer = { 0 }
  for _, s in ipairs(all) do
    local admits_readers = is_downgrade(s, s.want)
    if admits_readers then shares().downgrade(s, s.want) end
    if s.shared then
      shares().prolong(s, ends_after(ttl))
      -- A server whose memory is full does not refuse this, and so does not refuse what follows.
      redis.call('PEXPIREAT', s.key, whole(shares().last_end(s)))
    else
      s.left = math.max(left(s), ttl)
      redis.call('PEXPIRE', s.key, whole(s.left))
    end
    keep_fences(s.fence_key, keep)
    if admits_readers then advance(s) end
  end
end
return finish(all, answer)
