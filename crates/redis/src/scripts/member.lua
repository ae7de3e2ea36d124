-- Stands before each script that a quorum asks, but for the releases: lets nothing through while this server may have forgotten
-- leases. It takes its key and its arguments from behind the others; what follows finds its own where they always are.
--
-- KEYS  last, the member key: which run of the server vouches for its leases; and, until it is sure to have forgotten none that
--       lasts, a space and since when it does, in µs since 1970
-- ARGV  behind all others:
--       1  the fence that is proposed
--       2  the run that the caller found on this very connection; empty: this server is said to forget nothing
--       3  the longest ttl of the quorum, in ms
--
--  10 left                    it abstains for so many ms more; nothing is written but the member key
--
-- If the key has another run or none, the server was started anew, or its data were replaced or deleted. What it forgot lasts for
-- the longest ttl at most; its clock may have been read a little before it forgot.

local BEHIND = 1000000

longest = tonumber(table.remove(ARGV))
local run, proposed = table.remove(ARGV), tonumber(table.remove(ARGV))
floor = math.min(math.max(proposed, now - MARGIN), now + MARGIN)

local member_key = table.remove(KEYS)
if run ~= '' then
  local kept = whole(math.max(KEPT, 2 * longest))
  local vouches, since = string.match(redis.call('GET', member_key) or '', '^(%w+) ?(%d*)$')
  since = tonumber(since)
  -- A clock that was set back must not make it abstain for as long as it was set back.
  if vouches ~= run or since and since > now then
    since = now
    redis.call('SET', member_key, run .. ' ' .. time, 'PX', kept)
  end
  if since then
    local till = since + longest * 1000 + BEHIND
    if now < till then return { 10, math.ceil((till - now) / 1000), time, {} } end
    redis.call('SET', member_key, run, 'PX', kept)
  elseif redis.call('PTTL', member_key) < KEPT / 2 then
    redis.call('PEXPIRE', member_key, kept)
  end
end

