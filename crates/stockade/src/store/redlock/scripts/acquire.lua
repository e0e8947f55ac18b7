-- Takes the resource on this server as `SET lock value NX PX lease` does, and with it the token, if that is above every
-- token that the bucket has seen here.
-- KEYS: lock, F. ARGV: value, lease ms, stamp µs (server time when sent, as the client estimates; 0: don't check; one
--   more than 100 ms ahead is refused, since it would be accepted for that much longer), the age in ms from which the
--   command is refused, token (0: take none).
-- Reply: `FENCED now` taken with the token, `TAKEN floor now` taken without it, `BUSY left now` held by another for so
--   many ms more (-1: without end), `STALE now`; now in µs.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local stamp = tonumber(ARGV[3])
if stamp ~= 0 and (now - stamp > ARGV[4] * 1000 or stamp - now > 100000) then
  return string.format('STALE %.0f', now)
end
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return string.format('BUSY %d %.0f', redis.call('PTTL', KEYS[1]), now)
end
local floor = redis.call('GET', KEYS[2]) or '0'
if tonumber(floor) < tonumber(ARGV[5]) then
  redis.call('SET', KEYS[2], ARGV[5])
  return string.format('FENCED %.0f', now)
end
return string.format('TAKEN %s %.0f', floor, now)
