-- Gives what one owner holds to another, with the same token and a new lease, if any of the old one is left.
-- KEYS: L F Q W M, see common.lua. ARGV: new owner, lease ms, stamp and the age from which the command is refused as
--   for acquire.lua, old owner, its token, its mode (w, r or s).
-- Reply: `ADOPTED x now`, also when the new owner had it before, `GONE now`, `STALE now`.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local stamp = tonumber(ARGV[3])
if stamp ~= 0 and (now - stamp > ARGV[4] * 1000 or stamp - now > 100000) then
  return string.format('STALE %.0f', now)
end
-- Nothing is granted here.
local G, skip, chan = 0, false, ''
local me = ARGV[1]
