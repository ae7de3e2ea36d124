-- Stands before the script that releases: a single key that its holder has alone. Nobody waits for it, as the flag in its value says;
-- or who is first in its line wants it alone and nothing else, and can be told. What stands behind comes to the same, but to make ready
-- all that it may have to do costs a server several times what this does.
--
-- KEYS and ARGV are those of what follows.

if #KEYS == 6 then
  local value, me = redis.pcall('GET', KEYS[1]), ARGV[1]
  local held = type(value) == 'string' and (#value == 36 or string.sub(value, 37, 37) == ' ') and string.sub(value, 1, 36)
  if held == 'lh1-' .. me then
    redis.call('DEL', KEYS[1])
    return { 0, {} }
  end

  local line = held == 'lh1+' .. me and redis.call('ZRANGE', KEYS[3], 0, 1) or {}
  local first, second = line[1], line[2]
  local known = first and first ~= me and second ~= me and redis.call('HMGET', KEYS[4], 'u', first, second or first) or {}
  local unclaimed, ttl, keep, channel, tail = known[1], string.match(known[2] or '', '^(%d+) (%d+) 0 ([^ ]+)(.*)$')
  if channel and (not unclaimed or string.sub(unclaimed, 1, 32) == me)
    and redis.call('PUBSUB', 'NUMSUB', channel)[2] > 0 and not redis.call('HGET', KEYS[4], 's:' .. channel)
  then
    local function channel_of(record) return string.match(record or '', '^%d+ %d+ [01][^ ]* ([^ ]+)') end
    local witness, elsewhere = second, second and channel_of(known[3])
    local last = redis.pcall('GET', KEYS[2])
    local counts = not last or type(last) == 'string' and string.find(last, '^%d+$') and tonumber(last) < FENCE_MAX
    if counts and (elsewhere or not second) then
      -- The first of a few who listens elsewhere: whoever listens there may be as dead as the first.
      if elsewhere == channel then
        local others = redis.call('ZRANGE', KEYS[3], 1, LOOKED_AHEAD)
        for n, record in ipairs(redis.call('HMGET', KEYS[4], unpack(others))) do
          local at = channel_of(record)
          if at and at ~= channel and others[n] ~= me then
            witness = others[n]
            elsewhere = at
            break
          end
        end
      end
      local clock, ms = redis.call('TIME'), ttl
      if tonumber(ttl) > tonumber(ARGV[2]) then ms = ARGV[2] end
      local fence = clock[1] .. string.sub('00000' .. clock[2], -6)
      if last then
        keep = math.max(redis.call('PTTL', KEYS[2]), tonumber(keep))
        if tonumber(last) >= tonumber(fence) then fence = string.format('%.0f', last + 1) end
      end
      -- What takes away comes first: a server whose memory is full lets the rest follow it.
      if second then
        redis.call('ZREM', KEYS[3], first, me)
        redis.call('HDEL', KEYS[4], first, me)
      else
        redis.call('DEL', KEYS[3], KEYS[4])
      end
      redis.call('SET', KEYS[1], (second and 'lh1+' or 'lh1-') .. first .. tail, 'PX', ms)
      redis.call('SET', KEYS[2], fence, 'PX', keep)
      if second then
        redis.call('HSET', KEYS[4], 'u', first .. ' ' .. channel)
        redis.pcall('PUBLISH', elsewhere, 'f ' .. witness .. ' ' .. ms .. ' ' .. KEYS[1])
      end
      redis.pcall('PUBLISH', channel, 'g ' .. first .. ' ' .. fence .. ' ' .. ms .. ' ' .. KEYS[1])
      return { 0, {} }
    end
  end
end

