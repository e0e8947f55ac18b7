-- Names the keys of a resource: L F Q W M, see common.lua. In a cluster all five are in KEYS: while a slot migrates, a
-- script that touches an undeclared key fails half-way. Elsewhere each name in KEYS only costs time, so acquire and
-- release get only the keys of their common case. The other names are derived from L: they differ in the letter behind
-- the hash tag.
local L, F, Q, W, M = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
if not M then
  local head, resource = string.match(L, '^([^}]*})l(:.*)$')
  F, Q, W, M = head .. 'f', head .. 'q' .. resource, head .. 'w' .. resource, head .. 'm' .. resource
end
