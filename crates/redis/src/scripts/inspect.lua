-- Returns the holders of a key and its waiters. Writes nothing.
--
-- ARGV  none
--
-- The second field is always 1, so that the fields have the same positions as in the answers to a
-- renewal and a release. The last two are the server's time in µs, and the queue: of each waiter,
-- in order, 32 digits, the ticket, the mode (empty: exclusive), and nothing or a space and the
-- label.
--   1 1 value pttl      it is held, by this value, for so long (-1: no end)
--   3 1 pttl                  it has something that is not a string
--   6 1                       nobody holds it
--  12 1 marker shares         several hold it, or nobody any more: of each, in order of their ends, 32 digits, the end in ms since 1970, the weight, the
--                             fence (-: none yet), and nothing or a space and the label

return look(0, time_now())
