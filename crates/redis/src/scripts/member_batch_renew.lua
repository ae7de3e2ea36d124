-- Second part of the script of a batch of renewals at a member of a quorum.
--
-- ARGV  2  the ttl of all leases, in ms
--
-- Returns a minus sign if the single scripts have to serve all leases.

if not serves(ARGV[2]) then return '-' end

