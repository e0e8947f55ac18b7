-- Second part of release.lua, after names.lua: a resource that is gone, and a reader while nobody waits.
-- If L was deleted and left its queue behind, the last part serves that queue.
if not raw and redis.call('EXISTS', Q, W, M) == 0 then
  return 0
end
-- Whether the caller's record as a reader was removed here.
local gone = false
if type(raw) == 'string' and string.find(raw, '^r 0 %d+ %d+$') and redis.call('HDEL', M, ARGV[1]) == 1 then
  if redis.call('EXISTS', Q, W, M) == 0 then
    redis.call('DEL', L)
    return 1
  elseif redis.call('HLEN', M) > 0 then
    return 1
  end
  -- Somebody waits although the state does not say so: the last part grants.
  gone = true
end
if raw and (type(raw) == 'table' or not string.find(raw, '^[wrsn] [01]')) then
  -- L holds a foreign value, which stays. The caller's place in the queue is removed all the same.
  redis.pcall('HDEL', W, ARGV[1])
  return redis.pcall('ZREM', Q, ARGV[1]) == 1 and 2 or 0
end
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local G, skip, chan = string.match(ARGV[2], '^(%d+) (%d) (%S+)$')
G, skip = G * 1000, skip == '1'
local me = ARGV[1]
