-- Stands before the scripts that grant: a single key that is wanted alone. Nobody has it or waits for it, and it is granted; or one of
-- ours has it alone, and who asks for the first time joins its line. What stands behind comes to the same, but to make ready all that
-- it may have to do costs a server several times what this does.
--
-- KEYS and ARGV are those of what follows; at a member of a quorum, with its key and its three arguments behind. There, what joins
-- is left to what stands behind.

local at_member = #KEYS == 7
if (#KEYS == 6 or at_member) and ARGV[7] == 'x' then
  local clock, last = redis.call('TIME'), redis.pcall('GET', KEYS[2])
  local now, before = clock[1] * 1000000 + clock[2], ARGV[6]
  local time = clock[1] .. string.sub('00000' .. clock[2], -6)
  local floor, vouched = now, true
  if at_member then
    local run, longest = ARGV[#ARGV - 1], tonumber(ARGV[#ARGV])
    floor = math.min(math.max(tonumber(ARGV[#ARGV - 2]), now - MARGIN), now + MARGIN)
    vouched = tonumber(ARGV[4]) <= longest
      and (run == '' or redis.call('GET', KEYS[7]) == run and redis.call('PTTL', KEYS[7]) >= KEPT / 2)
  end
  local known = not last or type(last) == 'string' and string.find(last, '^%d+$') and tonumber(last) < FENCE_MAX
  local in_time = before == '' or now <= tonumber(before)
  if vouched and known and in_time then
    if redis.call('EXISTS', KEYS[3], KEYS[4], KEYS[5], KEYS[6]) == 0
      and redis.call('SET', KEYS[1], 'lh1-' .. ARGV[1] .. ARGV[3], 'NX', 'PX', ARGV[4])
    then
      local above = last and last + 1 or 0
      local fence = floor == now and above <= now and time or string.format('%.0f', math.max(above, floor))
      local keep = last and math.max(redis.call('PTTL', KEYS[2]), tonumber(ARGV[5])) or ARGV[5]
      redis.call('SET', KEYS[2], fence, 'PX', keep)
      return { 0, fence, time, {} }
    end

    local channel, value = ARGV[8], nil
    if channel and channel ~= '' and ARGV[9] == '' and not at_member then value = redis.pcall('GET', KEYS[1]) end
    local holder = type(value) == 'string' and string.match(value, '^lh1[-+]([0-9a-f]+)')
    if holder and #holder == 32 and holder ~= ARGV[1] and (#value == 36 or string.sub(value, 37, 37) == ' ') then
      local mine = redis.call('HMGET', KEYS[4], 'u', ARGV[1], 's:' .. channel)
      local unclaimed, length = mine[1], redis.call('ZCARD', KEYS[3])
      if not mine[2] and not mine[3] and (not unclaimed or string.sub(unclaimed, 1, 32) == holder)
        and (ARGV[11] == '' or length < tonumber(ARGV[11]))
      then
        local behind = redis.call('ZRANGE', KEYS[3], -1, -1, 'WITHSCORES')[2]
        local left = redis.call('PTTL', KEYS[1])
        local ticket = time
        if behind and now <= tonumber(behind) then ticket = string.format('%.0f', behind + 1) end
        if string.sub(value, 4, 4) == '-' then
          redis.call('SET', KEYS[1], 'lh1+' .. string.sub(value, 5), 'KEEPTTL')
        end
        -- Whatever that process was handed it will hear of.
        local claimed = unclaimed and string.sub(unclaimed, 34) == channel
        if length == 0 and (not unclaimed or claimed) then
          redis.call('DEL', KEYS[3], KEYS[4])
        elseif claimed then
          redis.call('HDEL', KEYS[4], 'u')
        end
        redis.call('ZADD', KEYS[3], ticket, ARGV[1])
        redis.call('HSET', KEYS[4], ARGV[1], ARGV[4] .. ' ' .. ARGV[5] .. ' 0 ' .. channel .. ARGV[3])
        redis.call('PEXPIRE', KEYS[3], ARGV[12])
        redis.call('PEXPIRE', KEYS[4], ARGV[12])
        return { 7, 1, value, left, last or '', ticket, length, 0, time, {} }
      end
    end
  end
end

