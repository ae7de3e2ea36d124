-- Part of each script that changes a lease: the state of each key, and its changes.
--
-- A script first reads and decides, then changes its own tables, and finally writes, in `finish`. So nothing that can fail comes
-- after a write, and intermediate changes are never written.

local me, window = ARGV[1], tonumber(ARGV[2])
local now = time_now()
local time, now_ms = whole(now), math.floor(now / 1000)
-- The smallest fence that is granted, and the longest ttl, in ms. A quorum proposes others.
local floor, longest = now, math.huge
local pushes, told, unfinished = {}, 0, {}

-- The end of a share that lasts this long: at a whole millisecond, and not earlier.
local function ends_after(ms) return math.ceil(now / 1000) + ms end

-- The patterns of characters of several bytes, by their first byte; without U+0080 to U+009F, which
-- are control characters.
local UTF_8 = {
  '\194[\160-\191]', '[\195-\223][\128-\191]', '\224[\160-\191][\128-\191]', '\237[\128-\159][\128-\191]',
  '[\225-\236\238\239][\128-\191][\128-\191]', '\240[\144-\191][\128-\191][\128-\191]',
  '\244[\128-\143][\128-\191][\128-\191]', '[\241-\243][\128-\191][\128-\191][\128-\191]',
}
local LABEL_MAX = 256

-- Returns true for a valid label: UTF-8 without control characters, and not too long.
local function is_label(text)
  if #text > LABEL_MAX then return false end
  for _, character in ipairs(UTF_8) do
    if not string.find(text, '[^ -~]') then return true end
    text = string.gsub(text, character, ' ')
  end
  return not string.find(text, '[^ -~]')
end

-- The holder of a lease value, whatever its flag and label; nil: not one of our leases.
local LEASE = '^lh1[-+?](' .. string.rep('[0-9a-f]', 32) .. ')(.?)'
local function owner_of(value)
  local digits, behind = string.match(value, LEASE)
  if behind == '' or behind == ' ' and is_label(string.sub(value, 38)) then return digits end
end

-- A mode of a key. For a shared mode: its marker, the wanted weight, and the total.
local ALONE = { mode = '' }
local function wanted(mode)
  if mode == 'x' or mode == '' then return ALONE end
  if mode == 's' then return { mode = 's', marker = 'lh1 shared', weight = 1, room = math.huge } end
  local weight, of = string.match(mode, '^p(%d+)/(%d+)$')
  if not of then return ALONE end
  return { mode = mode, marker = 'lh1 permits ' .. of, weight = tonumber(weight), room = tonumber(of) }
end

-- The state of the n-th key. Without a mode, it counts as exclusive.
local function see(n, want)
  local at = 6 * n
  local s = {
    n = n, key = KEYS[at - 5], fence_key = KEYS[at - 4], line_key = KEYS[at - 3], waiters_key = KEYS[at - 2],
    holders_key = KEYS[at - 1], shares_key = KEYS[at], want = want or ALONE,
  }
  s.value, s.other = read(s.key)
  s.owner = s.value and owner_of(s.value)
  s.room = s.value and not s.owner and room_of(s.value)
  return s
end

-- The last fence, or false; and whether another one can follow it.
local function fence(s)
  if s.fence == nil then
    s.fence, s.odd = read(s.fence_key)
    s.odd = s.odd or s.fence and not string.find(s.fence, '^%d+$')
  end
  return s.fence, not s.odd and tonumber(s.fence or 0) < FENCE_MAX
end

-- The fence of the next grant after this last one.
local function above(last)
  return math.max(tonumber(last or 0) + 1, now)
end

-- Sets the holder of the key.
local function own(s, holder, tail, ms, awaited)
  s.value = 'lh1' .. (awaited and '+' or '-') .. holder .. tail
  s.owner, s.left, s.how = holder, ms, { 'PX', ms }
end

-- Makes the key free.
local function free(s)
  s.value, s.owner, s.room, s.left, s.how = false, nil, nil, nil, {}
end

-- Marks the key as waited for, so that its holder must release it by a script. A value that is not
-- ours is left unchanged.
local function mark(s)
  if s.owner and string.sub(s.value, 4, 4) ~= '+' then
    s.value = 'lh1+' .. string.sub(s.value, 5)
    s.how = s.how or { 'KEEPTTL' }
  end
end

-- Sets the fence, kept for this long, unless it is kept longer already.
local function remember(s, number, ms)
  s.fence = whole(number)
  s.keep = math.max(s.keep or redis.call('PTTL', s.fence_key), ms)
end

