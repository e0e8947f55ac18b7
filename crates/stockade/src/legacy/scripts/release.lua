-- Deletes the lock of a holder, unless somebody has taken it over.
-- KEYS: the lock. ARGV: the holder's time, its time and one lease more, the length of their unit in µs.
-- Reply: 1 deleted, 0 not there or another's.
local value = redis.call('GET', KEYS[1])
if not value then
  return 0
end
if value ~= ARGV[1] then
  -- Who lost a race for it has moved it by less than a lease. A successor's time is later by a lease or more, and none
  -- can have come while the holder's time was not over.
  local moved, time = tonumber(value), redis.call('TIME')
  local now = (time[1] * 1000000 + time[2]) / ARGV[3]
  if not moved or moved >= tonumber(ARGV[2]) or now >= ARGV[1] + 1 then
    return 0
  end
end
return redis.call('DEL', KEYS[1])
