-- Takes a token on this server: only while the value holds the lock, and only one above every token that the bucket has
-- seen. Without the first condition an owner that slept past its lease could take the token that a later owner has.
-- KEYS: lock, F. ARGV: value (empty: whoever holds it), token.
-- Reply: `FENCED now`, `TAKEN floor now` when the token is not above the floor, `GONE now` when the lock is not held by
--   the value; now in µs.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
-- Another program may keep something that is no string under the same name.
if ARGV[1] ~= '' and redis.pcall('GET', KEYS[1]) ~= ARGV[1] then
  return string.format('GONE %.0f', now)
end
local floor = redis.call('GET', KEYS[2]) or '0'
if tonumber(floor) < tonumber(ARGV[2]) then
  redis.call('SET', KEYS[2], ARGV[2])
  return string.format('FENCED %.0f', now)
end
return string.format('TAKEN %s %.0f', floor, now)
