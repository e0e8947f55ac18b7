-- Gives the resource back or leaves its queue, whichever the owner has, and serves the next.
-- KEYS: L F Q W M, see common.lua. ARGV: owner, pack = `grant skip channel` as for acquire.lua.
-- Reply: 1 held and given back, 2 left the queue, 0 neither; + 10 when more waiters can be served by calling it again.
local raw = redis.pcall('GET', KEYS[1])
-- A state that was deleted leaves its queue behind, which is served here.
if not raw and redis.call('EXISTS', KEYS[3], KEYS[4], KEYS[5]) == 0 then
  return 0
end
if type(raw) == 'string' and string.sub(raw, 1, 3) == 'w 0' and string.sub(raw, 7, 34) == ARGV[1] then
  redis.call('DEL', KEYS[1])
  return 1
end
-- Whether the caller was a reader, and is none any more.
local gone = false
if type(raw) == 'string' and string.find(raw, '^r 0 %d+ %d+$') and redis.call('HDEL', KEYS[5], ARGV[1]) == 1 then
  if redis.call('EXISTS', KEYS[3], KEYS[4], KEYS[5]) == 0 then
    redis.call('DEL', KEYS[1])
    return 1
  elseif redis.call('HLEN', KEYS[5]) > 0 then
    return 1
  end
  -- Somebody waits, although the state does not say so.
  gone = true
end
if raw and (type(raw) == 'table' or not string.find(raw, '^[wrsn] [01]')) then
  -- Somebody put it there, and it is not ours to end. A place in the queue is left all the same.
  redis.pcall('HDEL', KEYS[4], ARGV[1])
  return redis.pcall('ZREM', KEYS[3], ARGV[1]) == 1 and 2 or 0
end
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local G, skip, chan = string.match(ARGV[2], '^(%d+) (%d) (%S+)$')
G, skip = G * 1000, skip == '1'
local me = ARGV[1]
