-- Gives the resource back or leaves its queue, whichever the owner has, and serves the next.
-- KEYS: L, and F Q W M in a cluster, see names.lua. ARGV: owner, pack = `grant skip channel` as for acquire.lua.
-- Reply: 1 held and given back, 2 left the queue, 0 neither; + 10 when more waiters can be served by calling it again.
local raw = redis.pcall('GET', KEYS[1])
-- The length of an error, which is a table, is 0.
if raw and #raw > 34 and string.sub(raw, 7, 34) == ARGV[1] and string.sub(raw, 1, 3) == 'w 0' then
  redis.call('DEL', KEYS[1])
  return 1
end
