-- Makes the exclusive holder a reader with the same token and a new lease, and lets the readers at the head in.
-- KEYS: L F Q W M, see common.lua. ARGV: owner, pack = `grant skip channel` as for acquire.lua, lease ms.
-- Reply: `1 now` it reads, also when it did before, `2 now` it reads and may not renew, `0 now` not held by this owner.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local G, skip, chan = string.match(ARGV[2], '^(%d+) (%d) (%S+)$')
G, skip = G * 1000, skip == '1'
local me = ARGV[1]
