-- Stands first in each script that changes a lease: the numbers that short cuts and what stands behind them must agree on.

-- The last fence that a double can count.
local FENCE_MAX = 9007199254740991
-- How far from this server's clock a fence may be that a quorum proposes, in µs; and for how long after its last use a member remembers
-- which run of the server vouches for it, in ms.
local MARGIN, KEPT = 2000000, 2592000000

-- So many of a line are looked at for one who listens elsewhere than its first.
local LOOKED_AHEAD = 8
