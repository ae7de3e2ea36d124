-- Stands before the scripts that grant: a single key that is wanted alone, and that nobody has or waits for. What stands behind comes
-- to the same, but to make ready all that it may have to do costs a server more than this does.
--
-- KEYS and ARGV are those of what follows; at a member of a quorum, with its key and its three arguments behind.

local at_member = #KEYS == 7
if (#KEYS == 6 or at_member) and ARGV[7] == 'x' then
  local clock, last = redis.call('TIME'), redis.pcall('GET', KEYS[2])
  local now, before = clock[1] * 1000000 + clock[2], ARGV[6]
  local floor, vouched = now, true
  if at_member then
    local run, longest = ARGV[#ARGV - 1], tonumber(ARGV[#ARGV])
    floor = math.min(math.max(tonumber(ARGV[#ARGV - 2]), now - MARGIN), now + MARGIN)
    vouched = tonumber(ARGV[4]) <= longest
      and (run == '' or redis.call('GET', KEYS[7]) == run and redis.call('PTTL', KEYS[7]) >= KEPT / 2)
  end
  local known = not last or type(last) == 'string' and string.find(last, '^%d+$') and tonumber(last) < FENCE_MAX
  local in_time = before == '' or now <= tonumber(before)
  if vouched and known and in_time and redis.call('EXISTS', KEYS[3], KEYS[4], KEYS[5], KEYS[6]) == 0
    and redis.call('SET', KEYS[1], 'lh1-' .. ARGV[1] .. ARGV[3], 'NX', 'PX', ARGV[4])
  then
    local fence = string.format('%.0f', math.max((last or 0) + 1, floor))
    local keep = last and math.max(redis.call('PTTL', KEYS[2]), tonumber(ARGV[5])) or ARGV[5]
    redis.call('SET', KEYS[2], fence, 'PX', keep)
    return { 0, fence, string.format('%.0f', now), {} }
  end
end

