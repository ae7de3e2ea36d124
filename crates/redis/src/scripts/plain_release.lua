-- Stands before the script that releases: a single key that its holder has alone, and that nobody waits for, as the flag in its
-- value says. What stands behind comes to the same, but to make ready all that it may have to do costs a server more than this does.
--
-- KEYS and ARGV are those of what follows.

if #KEYS == 6 then
  local value, held = redis.pcall('GET', KEYS[1]), 'lh1-' .. ARGV[1]
  if value == held or type(value) == 'string' and string.sub(value, 1, 37) == held .. ' ' then
    redis.call('DEL', KEYS[1])
    return { 0, {} }
  end
end

