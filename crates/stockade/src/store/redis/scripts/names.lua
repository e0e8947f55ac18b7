-- Names the keys of a resource: L F Q W M, see common.lua. In a cluster all of them are in KEYS, and behind them Z,
-- which never exists. A server that gives a slot away refuses a command about a key that it does not have, and refuses
-- a script before it begins if some of its keys exist and others do not. Without Z all could exist. The script would
-- begin, and fail half-way at the first command about a key that it has emptied. So would a command about a key that is
-- not declared. Elsewhere each name in KEYS only costs time, so acquire and release get only the keys of their common
-- case. The other names are derived from L: they differ in the letter behind the hash tag.
local L, F, Q, W, M = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
if not M then
  local head, resource = string.match(L, '^([^}]*})l(:.*)$')
  F, Q, W, M = head .. 'f', head .. 'q' .. resource, head .. 'w' .. resource, head .. 'm' .. resource
end
