-- Announces an instance, and lists the instances that announced themselves lately.
--
-- KEYS: fleet (sorted set of members, each with the time of its last announcement in ms on this server's clock),
--       the mark that somebody reads the logs of the instances
-- ARGV: member, ms after which a silent member is forgotten, how many members are kept
-- Reply: whether somebody reads (0 or 1), {member, ms since its announcement, member, ms, ...}, the latest first
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[2])
-- Announced before the clock was set back: such members would stay for long and push others out.
redis.call('ZREMRANGEBYSCORE', KEYS[1], '(' .. now, '+inf')
redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -ARGV[3] - 1)
redis.call('PEXPIRE', KEYS[1], ARGV[2])
local listed = {}
local members = redis.call('ZREVRANGE', KEYS[1], 0, -1, 'WITHSCORES')
for i = 1, #members, 2 do
  listed[i], listed[i + 1] = members[i], string.format('%.0f', now - members[i + 1])
end
return {redis.call('EXISTS', KEYS[2]), listed}
