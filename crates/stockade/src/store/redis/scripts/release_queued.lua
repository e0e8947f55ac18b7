-- Second part of release.lua, after names.lua.
if calls > 1 then
  -- Another call may have changed what L held.
  raw = redis.pcall('GET', L)
end
-- If L was deleted and left its queue behind, the last part serves that queue.
if not raw and redis.call('EXISTS', Q, W, M) == 0 then
  return 0
end
if raw and (type(raw) == 'table' or not string.find(raw, '^[wrsn] [01]')) then
  -- L holds a foreign value, which stays. The caller's place in the queue is removed all the same.
  redis.pcall('HDEL', W, me)
  return redis.pcall('ZREM', Q, me) == 1 and 2 or 0
end
-- A server out of memory refuses a script at its first write, if that write may need memory. This one needs none.
redis.pcall('HDEL', W, me)
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local G, skip, chan = string.match(ARGV[1], '^(%d+) (%d) (%S+)$')
G, skip = G * 1000, skip == '1'
