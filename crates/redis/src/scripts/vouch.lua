-- Follows the script of members, and does nothing more. A slot for which this node has to abstain
-- starts its quarantine now, and is ready when it is first requested.
--
-- KEYS, ARGV  those of the script of members, and no others
--
--   0                         it answers for the slot

return { 0 }
