-- Moves an ownership to another owner, with a token of its own and a new lease, if the old lease has not ended. With
-- the old token, a second adoption on a server that has forgotten the first could not be told from it at the fence.
-- KEYS: L F Q W M Z, see names.lua. ARGV: stamp and age as for stamp.lua, new owner, lease in ms, old owner, its token,
--   its mode (w, r or s).
-- Reply: `ADOPTED token x now`, also if the new owner has adopted it before, `GONE now`, or `STALE now`; times in µs.
-- common.lua needs these. This script grants nothing to waiters.
local G, skip, chan = 0, false, ''
local me = ARGV[3]
