-- Takes the lock on this server as `SET lock value NX PX lease` does. Also writes the token to the bucket's floor F, if
-- the token is above F.
-- KEYS: lock, F. ARGV: stamp and age as for stamp.lua, value, lease in ms, token (0: none).
-- Reply, with `now` in µs:
--   `FENCED now`: taken, and the token is written
--   `TAKEN floor now`: taken, but the token is not above the floor
--   `BUSY left now`: another value holds the lock for `left` more ms (-1: it never expires)
--   `STALE now`: the command is too old
if not redis.call('SET', KEYS[1], ARGV[3], 'NX', 'PX', ARGV[4]) then
  return string.format('BUSY %d %.0f', redis.call('PTTL', KEYS[1]), now)
end
local floor = redis.call('GET', KEYS[2]) or '0'
if tonumber(floor) < tonumber(ARGV[5]) then
  redis.call('SET', KEYS[2], ARGV[5])
  return string.format('FENCED %.0f', now)
end
return string.format('TAKEN %s %.0f', floor, now)
