-- Takes the resource from its holders and serves the queue. Deletes foreign values under the keys.
-- KEYS: L F Q W M Z, see names.lua.
-- ARGV: `now`, or `after_leases` to let shared holders keep the rest of their leases; pack = `grant skip channel` as
--   for acquire.lua.
-- Reply: how many holders lost the resource or may no longer renew, and a token above theirs.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local G, skip, chan = string.match(ARGV[2], '^(%d+) (%d) (%S+)$')
G, skip = G * 1000, skip == '1'
local me = ''
