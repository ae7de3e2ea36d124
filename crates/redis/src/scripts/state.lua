-- Stands before each script that changes a lease: what is known of each key, and what it is to become.
--
-- A script looks and decides first, changes what it knows, and writes at last, by `finish`. So nothing that can fail comes
-- after a write, and what was done and undone on the way is not written at all.

local me, window = ARGV[1], tonumber(ARGV[2])
local now = time_now()
local time, now_ms = whole(now), math.floor(now / 1000)
-- The least fence that is granted, and the longest ttl, in ms. A quorum proposes others.
local floor, longest = now, math.huge
local pushes, told, unfinished = {}, 0, {}

-- When a share ends that is to last so long: at a whole millisecond, and not before its time.
local function ends_after(ms) return math.ceil(now / 1000) + ms end

-- What stands for one character of several bytes, by its first byte; not those from U+0080 to U+009F, which are control characters.
local UTF_8 = {
  '\194[\160-\191]', '[\195-\223][\128-\191]', '\224[\160-\191][\128-\191]', '\237[\128-\159][\128-\191]',
  '[\225-\236\238\239][\128-\191][\128-\191]', '\240[\144-\191][\128-\191][\128-\191]',
  '\244[\128-\143][\128-\191][\128-\191]', '[\241-\243][\128-\191][\128-\191][\128-\191]',
}
local LABEL_MAX = 256

-- Whether a holder may call itself so: UTF-8 without control characters, and not long.
local function is_label(text)
  if #text > LABEL_MAX then return false end
  for _, character in ipairs(UTF_8) do
    if not string.find(text, '[^ -~]') then return true end
    text = string.gsub(text, character, ' ')
  end
  return not string.find(text, '[^ -~]')
end

-- Whose lease a value is, whatever its flag and label; nil: none of ours.
local LEASE = '^lh1[-+?](' .. string.rep('[0-9a-f]', 32) .. ')(.?)'
local function owner_of(value)
  local digits, behind = string.match(value, LEASE)
  if behind == '' or behind == ' ' and is_label(string.sub(value, 38)) then return digits end
end

-- How a key is wanted. Where others may hold it as well: what stands there then, how much is wanted, and how much there is.
local ALONE = { mode = '' }
local function wanted(mode)
  if mode == 'x' or mode == '' then return ALONE end
  if mode == 's' then return { mode = 's', marker = 'lh1 shared', weight = 1, room = math.huge } end
  local weight, of = string.match(mode, '^p(%d+)/(%d+)$')
  if not of then return ALONE end
  return { mode = mode, marker = 'lh1 permits ' .. of, weight = tonumber(weight), room = tonumber(of) }
end

-- All that is known of the n-th key. Where it does not matter how it is wanted, it is alone.
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

-- The key is to be a holder's.
local function own(s, holder, tail, ms, awaited)
  s.value = 'lh1' .. (awaited and '+' or '-') .. holder .. tail
  s.owner, s.left, s.how = holder, ms, { 'PX', ms }
end

-- The key is to be free.
local function free(s)
  s.value, s.owner, s.room, s.left, s.how = false, nil, nil, nil, {}
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

