-- Releases the resource, or removes the owner from its queue, and grants to the next waiters.
-- KEYS: L, and F Q W M in a cluster, see names.lua. ARGV: owner, pack = `grant skip channel` as for acquire.lua.
-- Reply: 1: the owner held the resource, 2: the owner was in the queue, 0: neither. 10 more if another call can serve
--   more waiters.
local raw = redis.pcall('GET', KEYS[1])
-- If L has another type, raw is an error, which is a table of length 0.
if raw and #raw > 34 and string.sub(raw, 7, 34) == ARGV[1] and string.sub(raw, 1, 3) == 'w 0' then
  redis.call('DEL', KEYS[1])
  return 1
end
