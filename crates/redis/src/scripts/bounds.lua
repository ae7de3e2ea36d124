-- First part of each script that changes a lease: numbers on which the batch scripts and the single
-- scripts must agree.

-- The greatest fence: the last integer that a double represents exactly.
local FENCE_MAX = 9007199254740991
-- How far from this server's clock a proposed fence of a quorum may be, in µs; and for how long
-- after its last use a member remembers which run of the server vouches for it, in ms.
local MARGIN, KEPT = 2000000, 2592000000

-- The number of waiters that are searched for one on another channel than the first waiter's.
local LOOKED_AHEAD = 8
