-- Outdates every value with a tag, stored or being loaded, and tells every process. What it costs does not depend on
-- how many values there are.
--
-- KEYS: T tags (sorted set, see tags.lua), S sequence of bucket 0
-- ARGV: tag, channel, run id, random text, us after which no value of this cache is left
-- Reply: {DROPPED, now, seq}
-- Messages: `0 <seq> #<tag>` to the channel
-- First a write that takes no memory, so that a server over its limit lets those after it pass. There is no such
-- member.
own_call('ZREM', KEYS[1], '')
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local function text(number)
  return string.format('%.0f', number)
end

local _, newest = tags_now(KEYS[1], ARGV[3], ARGV[4])
local stamp = math.max(newest + 1, now)
redis.call('ZADD', KEYS[1], text(-stamp), 'n', text(stamp), 't:' .. ARGV[1])

-- A stamp is forgotten when no value is left that may be older, or when there are too many. Raising the floor to it
-- first makes that safe: at worst, because a clock was set, values are taken for outdated that are not. 1024 at a time,
-- so that nobody waits long; each call adds one at most.
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
