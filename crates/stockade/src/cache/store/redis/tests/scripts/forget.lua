-- Deletes all stamps of tags and raises the floor, as invalidate_tag.lua does if there are too many.
--
-- KEYS: T tags (sorted set, see tags.lua)
-- ARGV: none
-- Reply: {FORGOTTEN, now}
local time = redis.call('TIME')
local newest = redis.call('ZSCORE', KEYS[1], 'n')
if newest then
  redis.call('ZADD', KEYS[1], newest, 'f')
  redis.call('ZREMRANGEBYSCORE', KEYS[1], '1', '+inf')
end
return {'FORGOTTEN', string.format('%.0f', time[1] * 1000000 + time[2])}
