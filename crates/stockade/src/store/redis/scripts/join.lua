-- Records since when this run of the server has served the namespace, and returns that time.
-- KEYS: the run marker. ARGV: run id. Reply: `now since`, µs.
local time = redis.call('TIME')
local now = string.format('%.0f', time[1] * 1000000 + time[2])
-- A value that is no marker counts as that of another run, and is overwritten.
local marker = redis.pcall('GET', KEYS[1])
local run, since = string.match(type(marker) == 'string' and marker or '', '^(%S+) (%d+)$')
if run ~= ARGV[1] then
  -- The first write takes no memory, so that a server over its memory limit lets the next one pass.
  redis.call('DEL', KEYS[1])
  redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. now)
  since = now
end
return now .. ' ' .. since
