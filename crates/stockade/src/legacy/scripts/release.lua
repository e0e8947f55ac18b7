-- Deletes the lock of a holder, unless another client has taken it over.
-- KEYS: the lock. ARGV: the holder's time, that time plus one lease, the length of their unit in µs.
-- Reply: 1: deleted, 0: there is no lock, or it may be another client's.
local value = redis.call('GET', KEYS[1])
if not value then
  return 0
end
if value ~= ARGV[1] then
  -- A client that lost the race for the expired lock has moved the holder's time by less than a lease. The time of a
  -- successor is later by a lease or more. And before the holder's time is over, nobody can succeed it.
  local moved, time = tonumber(value), redis.call('TIME')
  local now = (time[1] * 1000000 + time[2]) / ARGV[3]
  if not moved or moved >= tonumber(ARGV[2]) or now >= ARGV[1] + 1 then
    return 0
  end
end
return redis.call('DEL', KEYS[1])
