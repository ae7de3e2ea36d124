-- At a member of a quorum: extends a lease to a ttl from now, and takes it again if nobody holds
-- its keys or waits for them, with the fence on which the majority agreed. All keys, or none.
--
-- ARGV  1  32 digits of the holder
--       2  how long a key that is handed over may remain unclaimed, in ms
--       3  the ttl, in ms
--       4  how long to remember the fence, in ms
--       5  the mode of each key, as in a grant
--       6  after this time on the server's clock, in µs since 1970, take nothing; empty: never
--       7  the part of the value after the digits: nothing, or a space and the label
--
-- The renewal script follows it and returns the answer; after that time, it is a mere renewal. In
-- addition:
--   5 n name                  the fence key of key n, of this name, contains something that is not a number; nothing is written
--
-- The attempt may have been released since, and then must not be restored.

if ARGV[6] == '' or now <= tonumber(ARGV[6]) then
  local ttl, keep, tail = tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[7]
  if ttl > longest then return { 11, time, {} } end

  local all, answer = {}, nil
  for mode in string.gmatch(ARGV[5], '[^ ]+') do
    local n = #all + 1
    local s = see(n, wanted(mode))
    fence(s)
    if s.odd then return { 5, n, s.fence_key, {} } end
    all[n] = s
  end
  for _, s in ipairs(all) do settle(s) end

  local has_all = true
  for _, s in ipairs(all) do
    claim(s)
    if holds(s, s.want) or is_downgrade(s, s.want) then
      put_back(s)
    else
      has_all = false
      if advance(s) ~= 'free' then answer = answer or holding(s) end
    end
  end

  if not answer then
    answer = { 0 }
    if has_all then
      -- A server whose memory is full does not refuse this, and so does not refuse what follows.
      local first = all[1].key
      redis.call('PEXPIRE', first, whole(math.max(redis.call('PTTL', first), ttl)))
    end
    for _, s in ipairs(all) do
      local admits_readers = is_downgrade(s, s.want)
      if admits_readers then shares().downgrade(s, s.want) end
      take(s, tail, ttl)
      agree_on(s, proposed, keep)
      if s.shared then shares().stamp(s, proposed) end -- others who hold it together with this one may have greater ones by now
      if admits_readers then advance(s) end
    end
  end
  return finish(all, answer)
end

