-- Part of each script for a quorum, except the releases: refuses the request while this server may
-- have forgotten leases. It takes its key and its arguments from behind the others, so the parts
-- that follow find theirs at the usual positions.
--
-- KEYS  last, the member key: the run of the server that vouches for its leases; and, until it has certainly not forgotten any lease
--       that still lasts, a space and since when it vouches, in µs since 1970
-- ARGV  behind all others:
--       1  the proposed fence
--       2  the run that the caller found on this very connection; empty: the URL says that this server forgets nothing
--       3  the longest ttl of the quorum, in ms
--
--  10 left                    it abstains for so many more ms; nothing is written except the member key
--
-- If the key has another run or none, the server was restarted, or its data were replaced or
-- deleted. A lease that it forgot lasts for at most the longest ttl; its clock may have been read a
-- little before it forgot.

local BEHIND, MOST_AHEAD = 1000000, 86400000

longest = tonumber(table.remove(ARGV))
local run, proposed = table.remove(ARGV), tonumber(table.remove(ARGV))
floor = math.min(math.max(proposed, now - MARGIN), now + MARGIN)

-- Remembers a fence on which the members agreed, or the last one if that is greater. If it is ahead of the
-- clock here, it is remembered for as much longer, so that the clock alone makes the next one greater. A
-- number that is ahead by more than a day comes from no clock, and must not stay.
local function agree_on(s, agreed, keep)
  local number = math.max(agreed, tonumber(fence(s) or 0))
  local ahead = math.max((number - now) / 1000, 0)
  remember(s, number, ahead <= MOST_AHEAD and keep + ahead or keep)
end

local member_key = table.remove(KEYS)
if run ~= '' then
  local kept = whole(math.max(KEPT, 2 * longest))
  local vouches, since = string.match(redis.call('GET', member_key) or '', '^(%w+) ?(%d*)$')
  since = tonumber(since)
  -- After a clock was set back, it must not abstain for the time by which the clock was set back.
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

