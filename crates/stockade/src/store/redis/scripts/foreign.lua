-- Says which key of a resource holds what no script of the locks has written there.
-- KEYS: L F Q W M, see common.lua. ARGV: none.
-- Reply: `state`, `floor`, `queue`, `waiters` or `holders`, or an empty string.
local now, me, G, skip, chan = 0, '', 0, false, ''
