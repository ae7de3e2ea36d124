-- Behind the script of members: nothing more is done. A slot for which this node has to abstain does so from now on, and is ready when
-- it is first asked for.
--
-- KEYS, ARGV  what the script of members takes, and nothing besides
--
--   0                         it answers for the slot

return { 0 }
