-- Extends exclusive leases of one key each to a TTL from now, if nobody waits for them. Any other lease is renewed by the single
-- renewal script.
--
-- KEYS  for each lease its key; then for each lease the fence of its key; at a member of a quorum one more: the member key
-- ARGV  1  the ttl of all leases, in ms
--       2  how long to remember their fences, in ms
--     and only at a member:
--       3  the run that vouches for its leases; empty: the URL says that the server forgets nothing
--       4  the longest ttl of the quorum, in ms
--     then for each lease the value that its grant wrote
--
-- Returns for each lease 1 if it was renewed, or 0. No lease is shortened, and no fence is forgotten sooner.

local call, keys, argv = redis.call, KEYS, ARGV
local at_member = #keys % 2 == 1
local n, before = math.floor(#keys / 2), at_member and 4 or 2
local ttl, keep, vouched = tonumber(argv[1]), tonumber(argv[2]), true
if at_member then
  vouched = argv[3] == '' or call('GET', keys[#keys]) == argv[3] and call('PTTL', keys[#keys]) >= KEPT / 2
  vouched = vouched and ttl <= tonumber(argv[4])
end

local function last(key, ms, digits)
  if call('PTTL', key) < ms then call('PEXPIRE', key, digits) end
end

local found, answer = call('MGET', unpack(keys, 1, n)), {}
for i = 1, n do
  local is_held = vouched and found[i] == argv[before + i]
  if is_held then
    last(keys[i], ttl, argv[1])
    last(keys[n + i], keep, argv[2])
  end
  answer[i] = is_held and 1 or 0
end
return answer
