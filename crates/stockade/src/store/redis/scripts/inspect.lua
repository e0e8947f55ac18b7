-- Reads the holders and the queue of a resource. Changes nothing, not even leases that are over.
-- KEYS: L F Q W M Z, see names.lua. ARGV: none.
-- Reply: now in µs, L or an empty string, the records of M, `place record` of the first 100 waiters, the length of the
--   queue.
local time = redis.call('TIME')
local now = string.format('%.0f', time[1] * 1000000 + time[2])
local waiters, queue = {}, redis.call('ZRANGE', KEYS[3], 0, 99, 'WITHSCORES')
for i = 1, #queue, 2 do
  local record = redis.call('HGET', KEYS[4], queue[i])
  if record then
    waiters[#waiters + 1] = string.format('%.0f %s', queue[i + 1], record)
  end
end
return { now, redis.call('GET', KEYS[1]) or '', redis.call('HVALS', KEYS[5]), waiters, redis.call('ZCARD', KEYS[3]) }
