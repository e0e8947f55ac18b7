-- Writes a token to the bucket's floor F, if the value holds the lock here and the token is above F.
-- Without the first condition, an owner that slept past its lease could get the same token as a later owner.
-- KEYS: lock, F. ARGV: value (empty: do not check it), token.
-- Reply, with `now` in µs:
--   `FENCED now`: the token is written
--   `TAKEN floor now`: the token is not above the floor
--   `GONE now`: the value does not hold the lock
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
-- pcall: another program may keep a list or a hash under this name, and GET on one is an error.
if ARGV[1] ~= '' and redis.pcall('GET', KEYS[1]) ~= ARGV[1] then
  return string.format('GONE %.0f', now)
end
local floor = redis.call('GET', KEYS[2]) or '0'
if tonumber(floor) < tonumber(ARGV[2]) then
  redis.call('SET', KEYS[2], ARGV[2])
  return string.format('FENCED %.0f', now)
end
return string.format('TAKEN %s %.0f', floor, now)
