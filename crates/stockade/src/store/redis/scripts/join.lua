-- Records since when this run of the server has served the namespace, and returns that time.
-- KEYS: the run marker. ARGV: run id. Reply: `now since`, µs.
local time = redis.call('TIME')
local now = string.format('%.0f', time[1] * 1000000 + time[2])
local marker = redis.call('GET', KEYS[1])
local run, since = string.match(marker or '', '^(%S+) (%d+)$')
if run ~= ARGV[1] then
  redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. now)
  since = now
end
return now .. ' ' .. since
