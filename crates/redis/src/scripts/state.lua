-- Part of each script that changes a lease: the state of each key, and its changes.
--
-- A script first reads and decides, then changes its own tables, and finally writes, in `finish`.
-- So nothing that can fail comes after a write, and intermediate changes are never written.

local me, window = ARGV[1], tonumber(ARGV[2])
local now = time_now()
local time, now_ms = whole(now), math.floor(now / 1000)
-- The smallest fence that is granted, and the longest ttl, in ms. A quorum proposes others.
local floor, longest = now, math.huge
local pushes, told, unfinished = {}, 0, {}

-- The end of a share that lasts this long: at a whole millisecond, and not earlier.
local function ends_after(ms) return math.ceil(now / 1000) + ms end

local LABEL_MAX = 256

-- Returns true for a valid label: UTF-8 without control characters, and not too long.
local function is_label(text)
  if #text > LABEL_MAX then return false end
  if not string.find(text, '[^ -~]') then return true end
  -- Characters of several bytes, by their first byte; without the control characters U+0080 to
  -- U+009F.
  for _, character in ipairs {
    '\194[\160-\191]', '[\195-\223][\128-\191]', '\224[\160-\191][\128-\191]', '\237[\128-\159][\128-\191]',
    '[\225-\236\238\239][\128-\191][\128-\191]', '\240[\144-\191][\128-\191][\128-\191]',
    '\244[\128-\143][\128-\191][\128-\191]', '[\241-\243][\128-\191][\128-\191][\128-\191]',
  } do
    text = string.gsub(text, character, ' ')
  end
  return not string.find(text, '[^ -~]')
end

-- The holder, the fence (nil: none) and the tail of a lease, whatever its flag; nil: not one of our
-- leases.
local function lease_of(value)
  local digits, behind = string.match(value, '^lh1[-+?]([0-9a-f]+)(.*)$')
  if not digits or #digits ~= 32 then return nil end
  local fence, tail = string.match(behind, '^%.(%d+)(.*)$')
  if fence and (#fence > 16 or tonumber(fence) > FENCE_MAX) then return nil end
  tail = tail or behind
  if tail == '' or string.sub(tail, 1, 1) == ' ' and is_label(string.sub(tail, 2)) then return digits, fence, tail end
end

-- A mode of a key. For a shared mode: its marker, the wanted weight, and the total.
local ALONE = { mode = '' }
local function wanted(mode)
  if mode == 's' then return { mode = 's', marker = 'lh1 shared', weight = 1, room = math.huge } end
  local weight, of = string.match(mode, '^p(%d+)/(%d+)$')
  if not of then return ALONE end
  return { mode = mode, marker = 'lh1 permits ' .. of, weight = tonumber(weight), room = tonumber(of) }
end

-- The state of the n-th key. Without a mode, it counts as exclusive.
local function see(n, want)
  local at = 6 * n
  local s = {
    n = n, key = KEYS[at - 5], fence_key = KEYS[at - 4], queue_key = KEYS[at - 3], waiters_key = KEYS[at - 2],
    holders_key = KEYS[at - 1], shares_key = KEYS[at], want = want or ALONE,
  }
  s.value, s.other = read(s.key)
  if s.value then s.owner, s.number, s.tail = lease_of(s.value) end
  s.shared = s.value and not s.owner and is_marker(s.value)
  return s
end

-- The last fence of each key, which several keys of a claim may have in common. At a member of a
-- quorum, it is in a field of the fence key: the tag of the key.
local memories = {}
local function memory(s)
  local tag = string.sub(s.fence_key, 11, 11) == 'f' and string.match(s.queue_key, '{(.-)}')
  local name = (tag or '') .. s.fence_key
  local found = memories[name]
  if not found then
    local last, odd = read(s.fence_key, tag)
    found = { key = s.fence_key, tag = tag, last = last, odd = odd or last and not string.find(last, '^%d+$') }
    memories[name] = found
  end
  return found
end

-- The last fence, or false; and whether another one can follow it.
local function fence(s)
  local found = memory(s)
  s.odd = found.odd
  return found.last, not found.odd and tonumber(found.last or 0) < FENCE_MAX
end

-- The fence of the next grant after this last one.
local function above(last)
  return last and math.max(last + 1, now) or now
end

local function is_awaited(s) return string.sub(s.value, 4, 4) == '+' end

-- Composes the value of the lease. Its end stays.
local function compose(s, awaited)
  s.value = 'lh1' .. (awaited and '+' or '-') .. s.owner .. (s.number and '.' .. s.number or '') .. s.tail
  s.changed = true
end

-- Sets the holder of the key, and its fence (nil: none yet).
local function own(s, holder, number, tail, ms, awaited)
  s.owner, s.number, s.tail, s.left = holder, number, tail, ms
  compose(s, awaited)
end

-- Makes the key free.
local function free(s)
  s.value, s.owner, s.number, s.shared, s.left, s.changed = false, nil, nil, nil, nil, true
end

-- Marks the key as waited for, so that its holder must release it by a script. A value that is not
-- ours is left unchanged.
local function mark(s)
  if s.owner and not is_awaited(s) then compose(s, true) end
end

-- Sets the last fence, kept for this long, unless it is kept longer already. A lease on the key has
-- this fence from now on.
local function remember(s, number, ms)
  local found = memory(s)
  found.last = whole(number)
  found.keep = math.max(found.keep or redis.call('PTTL', found.key), ms)
  if s.owner then
    s.number = found.last
    compose(s, is_awaited(s))
  end
end

-- Keeps a fence key for this long, unless it is kept longer already.
local function keep_fences(key, ms)
  if redis.call('PTTL', key) < ms then redis.call('PEXPIRE', key, whole(ms)) end
end

