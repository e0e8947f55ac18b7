-- First part of a script. Reads the clock, and refuses a command that arrives too late: the release that should undo
-- the command may have run before it.
-- ARGV[1]: the stamp, which is the server time at which the client sent the command, by its estimate, in µs. 0: do not
--   check. A stamp more than 100 ms ahead is refused, since it would be accepted for that much longer.
-- ARGV[2]: the age in ms above which the command is refused.
-- Reply: `STALE now`, in µs. Otherwise the script goes on, with now (µs) and its parts, seconds and micros.
-- Arguments are not parsed first, since every acquisition runs this.
local time = redis.call('TIME')
local seconds, micros = time[1] + 0, time[2] + 0
local now = seconds * 1000000 + micros
local late = now - ARGV[1]
if (late > ARGV[2] * 1000 or late < -100000) and ARGV[1] ~= '0' then
  return string.format('STALE %.0f', now)
end
