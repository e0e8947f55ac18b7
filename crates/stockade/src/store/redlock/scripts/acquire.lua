-- Takes the resource on this server as `SET lock value NX PX lease` does, and with it the token, if that is above every
-- token that the bucket has seen here.
-- KEYS: lock, F. ARGV: value, lease ms, stamp and age as for stamp.lua, token (0: take none).
-- Reply: `FENCED now` taken with the token, `TAKEN floor now` taken without it, `BUSY left now` held by another for so
--   many ms more (-1: without end), `STALE now`; now in µs.
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return string.format('BUSY %d %.0f', redis.call('PTTL', KEYS[1]), now)
end
local floor = redis.call('GET', KEYS[2]) or '0'
if tonumber(floor) < tonumber(ARGV[5]) then
  redis.call('SET', KEYS[2], ARGV[5])
  return string.format('FENCED %.0f', now)
end
return string.format('TAKEN %s %.0f', floor, now)
