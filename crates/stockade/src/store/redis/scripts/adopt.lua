-- Gives what one owner holds to another, with the same token and a new lease, if any of the old one is left.
-- KEYS: L F Q W M, see common.lua. ARGV: new owner, lease ms, stamp and age as for stamp.lua, old owner, its token, its
--   mode (w, r or s).
-- Reply: `ADOPTED x now`, also when the new owner had it before, `GONE now`, `STALE now`.
-- Nothing is granted here.
local G, skip, chan = 0, false, ''
local me = ARGV[1]
