-- Makes the exclusive holder a reader with the same token and a new lease, and grants to the readers at the head.
-- KEYS: L F Q W M Z, see names.lua. ARGV: owner, pack = `grant skip channel` as for acquire.lua, lease in ms,
-- token.
-- Reply, with `now` in µs:
--   `1 now`: the owner is a reader, perhaps from an earlier call
--   `2 now`: the owner is a reader and may not renew
--   `0 now`: the owner does not hold the resource with this token, see renew.lua
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local G, skip, chan = string.match(ARGV[2], '^(%d+) (%d) (%S+)$')
G, skip = G * 1000, skip == '1'
local me = ARGV[1]
