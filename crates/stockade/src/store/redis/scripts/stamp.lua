-- Reads the clock, and refuses a command that comes too late: all that undoes it may have run. First part of a script.
-- ARGV: 3 stamp µs (server time when sent, as the client estimates; 0: don't check; one more than 100 ms ahead is
--   refused, since it would be accepted for that much longer), 4 the age in ms from which the command is refused.
-- Reply: `STALE now`, in µs. Else it sets now (µs) and the parts that it consists of: seconds, micros.
-- Arguments are read as they are, and compared as text, since this runs before the common case.
local time = redis.call('TIME')
local seconds, micros = time[1] + 0, time[2] + 0
local now = seconds * 1000000 + micros
local late = now - ARGV[3]
if (late > ARGV[4] * 1000 or late < -100000) and ARGV[3] ~= '0' then
  return string.format('STALE %.0f', now)
end
