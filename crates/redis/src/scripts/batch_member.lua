-- First part of the script of a batch of renewals at a member of a quorum: serves nothing while this
-- server may have forgotten leases, or if the ttl is too long. It takes its key and its arguments
-- from behind the others.
--
-- KEYS  last, the member key
-- ARGV  2 the ttl of all leases, in ms; and behind all others:
--       1  the run that vouches for its leases; empty: the URL says that the server forgets nothing
--       2  the longest ttl of the quorum, in ms
--
-- Returns an empty array if the single scripts have to serve all leases.

do
  local longest, run, member_key = tonumber(table.remove(ARGV)), table.remove(ARGV), table.remove(KEYS)
  local vouched = run == '' or redis.call('GET', member_key) == run and redis.call('PTTL', member_key) >= KEPT / 2
  if not vouched or tonumber(ARGV[2]) > longest then return {} end
end

