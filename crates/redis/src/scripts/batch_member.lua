-- First part of each batch script at a member of a quorum. It takes its key and its arguments from
-- behind the others.
--
-- KEYS  last, the member key
-- ARGV  behind all others two:
--       1  the run that vouches for its leases; empty: the URL says that the server forgets nothing
--       2  the longest ttl of the quorum, in ms

local longest, run, member_key = tonumber(table.remove(ARGV)), table.remove(ARGV), table.remove(KEYS)

-- False while this server may have forgotten leases, or if the ttl is too long.
local function serves(ttl)
  local vouched = run == '' or redis.call('GET', member_key) == run and redis.call('PTTL', member_key) >= KEPT / 2
  return vouched and tonumber(ttl) <= longest
end

