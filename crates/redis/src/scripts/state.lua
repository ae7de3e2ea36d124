-- Stands before each script that changes a lease: what is known of each key, and what it is to become.
--
-- A script looks and decides first, changes what it knows, and writes at last, by `finish`. So nothing that can fail comes
-- after a write, and what was done and undone on the way is not written at all.

local FENCE_MAX = 9007199254740991
local me, window = ARGV[1], tonumber(ARGV[2])
local now = time_now()
local time = whole(now)
-- The least fence that is granted, and the longest ttl, in ms. A quorum proposes others.
local floor, longest = now, math.huge
local pushes, unfinished = {}, {}

-- Whose lease a value is, whatever its flag and label; nil: none of ours.
local LEASE = '^lh1[-+?](' .. string.rep('[0-9a-f]', 32) .. ')(.?)'
local function owner_of(value)
  local digits, behind = string.match(value, LEASE)
  if behind == '' or behind == ' ' then return digits end
end

-- All that is known of the n-th key.
local function see(n)
  local s = { n = n, key = KEYS[4 * n - 3], fence_key = KEYS[4 * n - 2], line_key = KEYS[4 * n - 1], waiters_key = KEYS[4 * n] }
  s.value, s.other = read(s.key)
  s.owner = s.value and owner_of(s.value)
  return s
end

-- How long the key lasts, in ms; -1: without an end.
local function left(s)
  s.left = s.left or redis.call('PTTL', s.key)
  return s.left
end

-- The last fence, or false; and whether another can follow it.
local function fence(s)
  if s.fence == nil then
    s.fence, s.odd = read(s.fence_key)
    s.odd = s.odd or s.fence and not string.find(s.fence, '^%d+$')
  end
  return s.fence, not s.odd and tonumber(s.fence or 0) < FENCE_MAX
end

-- The fence of the next grant, if the last one was this.
local function above(last)
  return math.max(tonumber(last or 0) + 1, now)
end

-- Who holds a key, and so why somebody else does not: a code, and the fields that go with it.
local function tenancy(s)
  if s.other then return { 3, s.n, left(s) } end
  if not s.value then return { 6, s.n } end
  return { 1, s.n, s.value, left(s), (fence(s)) or '' }
end

-- The key is to be a holder's.
local function own(s, holder, tail, ms, awaited)
  s.value = 'lh1' .. (awaited and '+' or '-') .. holder .. tail
  s.owner, s.left, s.how = holder, ms, { 'PX', ms }
end

-- The key is to be free.
local function free(s)
  s.value, s.owner, s.left, s.how = false, nil, nil, {}
end

-- Somebody waits for the key: its holder must let it go by a script. What is none of ours stays as it is.
local function mark(s)
  if s.owner and string.sub(s.value, 4, 4) ~= '+' then
    s.value = 'lh1+' .. string.sub(s.value, 5)
    s.how = s.how or { 'KEEPTTL' }
  end
end

-- The fence is to be this, remembered for so long, or longer if it was to be.
local function remember(s, number, ms)
  s.fence = whole(number)
  s.keep = math.max(s.keep or redis.call('PTTL', s.fence_key), ms)
end

