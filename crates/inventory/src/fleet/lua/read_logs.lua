-- Reads the logs of instances, and has them written from now on for a while.
--
-- KEYS: the mark that somebody reads, a log for each instance
-- ARGV: ms for which the mark stays, bytes of a log that are read at most
-- Reply: the logs; an empty text where there is none, or a value that is no text
redis.call('SET', KEYS[1], '1', 'PX', ARGV[1])
local logs = {}
for i = 2, #KEYS do
  local log = redis.pcall('GETRANGE', KEYS[i], 0, ARGV[2] - 1)
  logs[i - 1] = type(log) == 'string' and log or ''
end
return logs
