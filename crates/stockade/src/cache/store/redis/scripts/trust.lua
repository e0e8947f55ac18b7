-- Marks a run of the server as trusted, after every invalidation that it may lack was repeated.
--
-- KEYS: marker of the cache, see join.lua
-- ARGV: run id
-- Reply: {TRUSTED, now}, or {REFUSED, now} if another run of the server has joined since
local time = redis.call('TIME')
local now_text = string.format('%.0f', time[1] * 1000000 + time[2])
local marker = redis.pcall('GET', KEYS[1])
local run, since = string.match(type(marker) == 'string' and marker or '', '^(%S+) (%d+)')
if run ~= ARGV[1] then
  return {'REFUSED', now_text}
end
-- The first write takes no memory, so that a server over its memory limit lets the next one pass.
redis.call('DEL', KEYS[1])
redis.call('SET', KEYS[1], run .. ' ' .. since .. ' t')
return {'TRUSTED', now_text}
