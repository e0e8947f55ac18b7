-- Vouches for a run of the server: every invalidation that an earlier run can have lost was made again.
--
-- KEYS: marker of the cache, see join.lua
-- ARGV: run id
-- Reply: {TRUSTED, now}, or {REFUSED, now} when another run serves by now
local time = redis.call('TIME')
local now_text = string.format('%.0f', time[1] * 1000000 + time[2])
local marker = redis.pcall('GET', KEYS[1])
local run, since = string.match(type(marker) == 'string' and marker or '', '^(%S+) (%d+)')
if run ~= ARGV[1] then
  return {'REFUSED', now_text}
end
-- First a write that takes no memory, so that a server over its limit lets the next pass.
redis.call('DEL', KEYS[1])
redis.call('SET', KEYS[1], run .. ' ' .. since .. ' t')
return {'TRUSTED', now_text}
