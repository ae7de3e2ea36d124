-- Says who holds a key. Writes nothing.
--
-- KEYS  1  the key;  2  its fence key
-- ARGV  none
--
-- The second field is always 1, so that the fields stand where they do in the answers to a renewal and a release.
--   1 1 value pttl fence      it is held, by this value, for so long (-1: no end); fence empty: unknown
--   3 1 pttl                  it has something that is no string
--   6 1                       nobody holds it

local found, other = read(KEYS[1])
if other then return {3, 1, redis.call('PTTL', KEYS[1])} end
if not found then return {6, 1} end
return {1, 1, found, redis.call('PTTL', KEYS[1]), read(KEYS[2]) or ''}
