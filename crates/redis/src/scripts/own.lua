-- Stands before each script that changes a lease: whether a value is the lease of a holder, whatever its flag and label.
local function is_own(found, holder)
  return string.sub(found, 1, 3) == 'lh1'
    and string.find('-+?', string.sub(found, 4, 4), 1, true)
    and string.sub(found, 5, 36) == holder
    and (#found == 36 or string.sub(found, 37, 37) == ' ')
end

