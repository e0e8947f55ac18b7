-- Gives a token back unused, so that those who wait for its load try themselves.
--
-- KEYS: E entry (hash), I intents (hash), S sequence
-- ARGV: token, resource, inbox prefix
-- Reply: {ABORTED, now}, or {REFUSED, now} when the token was no longer current
-- Messages: `C <resource>` to the inbox of each waiting process
local time = redis.call('TIME')
local now_text = string.format('%.0f', time[1] * 1000000 + time[2])

if redis.call('HGET', KEYS[1], 'tok') ~= ARGV[1] then
  return {'REFUSED', now_text}
end

local waiting = {}
for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
  if string.sub(field, 1, 2) == 'w:' then
    waiting[#waiting + 1] = string.sub(field, 3)
    redis.call('HDEL', KEYS[1], field)
  end
end
redis.call('HDEL', KEYS[1], 'tok', 'tokx')
for _, process in ipairs(waiting) do
  redis.pcall('PUBLISH', ARGV[3] .. process, 'C ' .. ARGV[2])
end
return {'ABORTED', now_text}
