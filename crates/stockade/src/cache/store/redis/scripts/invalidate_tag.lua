-- Makes every value with a tag invalid, stored or being loaded, and tells every process. The cost does not depend on
-- the number of values.
--
-- KEYS: T tags (sorted set, see tags.lua), S sequence of bucket 0
-- ARGV: tag, channel, run id, random text, us after which no value of this cache is served
-- Reply: {DROPPED, now, seq}
-- Messages: `0 <seq> #<tag>` to the channel
-- The first write takes no memory (there is no such member), so that a server over its memory limit lets the others
-- pass.
own_call('ZREM', KEYS[1], '')
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local function text(number)
  return string.format('%.0f', number)
end

local _, newest = tags_now(KEYS[1], ARGV[3], ARGV[4])
local stamp = math.max(newest + 1, now)
redis.call('ZADD', KEYS[1], text(-stamp), 'n', text(stamp), 't:' .. ARGV[1])

-- A stamp is deleted when no value from before it can be left, or when there are too many stamps. The floor is raised
-- to the stamp first, which makes every tagged value from before it invalid. So no stale value is served, even if a
-- clock jumped: at worst valid values are loaded again. At most 1024 stamps are deleted at a time, so that no other
-- command waits long. Each call adds at most one.
local others, most = 4, 65536
local longest = math.max(tonumber(ARGV[5]), -tonumber(redis.call('ZSCORE', KEYS[1], 'h')))
local aged = redis.call('ZCOUNT', KEYS[1], '1', text(stamp - longest))
local over = redis.call('ZCARD', KEYS[1]) - others - most
local forgotten = math.min(math.max(aged, over), 1024)
if forgotten > 0 then
  local last = others + forgotten - 1
  local floor = redis.call('ZRANGE', KEYS[1], last, last, 'WITHSCORES')[2]
  redis.call('ZADD', KEYS[1], text(-tonumber(floor)), 'f')
  redis.call('ZREMRANGEBYRANK', KEYS[1], others, last)
end

local seq = next_number(KEYS[2])
redis.pcall('PUBLISH', ARGV[2], '0 ' .. seq .. ' #' .. ARGV[1])
return {'DROPPED', text(now), seq}
