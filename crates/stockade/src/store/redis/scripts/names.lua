-- Names the keys of a resource: L F Q W M, see common.lua. In a cluster all are in KEYS, since a script fails half-way
-- that meets another key of a slot which migrates. Elsewhere a name in KEYS only costs time, so acquire and release are
-- given what their common case touches, and the others are told from the first: they differ by the letter behind the
-- hash tag.
local L, F, Q, W, M = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
if not M then
  local head, resource = string.match(L, '^([^}]*})l(:.*)$')
  F, Q, W, M = head .. 'f', head .. 'q' .. resource, head .. 'w' .. resource, head .. 'm' .. resource
end
