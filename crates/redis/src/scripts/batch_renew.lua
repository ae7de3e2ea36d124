-- Extends exclusive leases of one key each to a TTL from now, if nobody waits for them. Any other lease is renewed by the single
-- renewal script.
--
-- KEYS  for each lease its key; then for each lease the fence of its key; at a member of a quorum one more: the member key
-- ARGV  only at a member:
--       1  the run that vouches for its leases; empty: the URL says that the server forgets nothing
--       2  the longest ttl of the quorum, in ms
--     then for each lease:
--          the value that its grant wrote
--          the ttl, in ms
--          how long to remember the fence, in ms
--
-- Returns for each lease 1 if it was renewed, or 0. No lease is shortened, and no fence is forgotten sooner.

local call = redis.call
local at_member = #KEYS % 2 == 1
local n, before = math.floor(#KEYS / 2), at_member and 2 or 0
local longest, vouched = math.huge, true
if at_member then
  longest = tonumber(ARGV[2])
  vouched = ARGV[1] == '' or call('GET', KEYS[#KEYS]) == ARGV[1] and call('PTTL', KEYS[#KEYS]) >= KEPT / 2
end

local function last(key, ms)
  if call('PTTL', key) < tonumber(ms) then call('PEXPIRE', key, ms) end
end

local found, answer = call('MGET', unpack(KEYS, 1, n)), {}
for i = 1, n do
  local at = before + 3 * (i - 1)
  local is_held = vouched and found[i] == ARGV[at + 1] and tonumber(ARGV[at + 2]) <= longest
  if is_held then
    last(KEYS[i], ARGV[at + 2])
    last(KEYS[n + i], ARGV[at + 3])
  end
  answer[i] = is_held and 1 or 0
end
return answer
