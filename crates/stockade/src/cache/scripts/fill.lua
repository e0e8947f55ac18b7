-- Stores a value under the token it was loaded under, unless that token is no longer current or a writer is committing.
--
-- KEYS: E entry (hash), I intents (hash), S sequence
-- ARGV: token, v, kind: `value` or `null`, ver, ttl ms, grace ms, load us, resource, inbox prefix
-- Reply: {ACCEPTED, now} or {REFUSED, now}
-- Messages: `C <resource>` to the inbox of each waiting process
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local now_text = string.format('%.0f', now)

if redis.call('EXISTS', KEYS[2]) == 1 or redis.call('HGET', KEYS[1], 'tok') ~= ARGV[1] then
  return {'REFUSED', now_text}
end

local waiting = {}
for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
  if string.sub(field, 1, 2) == 'w:' then
    waiting[#waiting + 1] = string.sub(field, 3)
  end
end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'v', ARGV[2], 'kind', ARGV[3], 'ver', ARGV[4], 'd', ARGV[7], 'at', now_text,
  'exp', string.format('%.0f', now + ARGV[5] * 1000))
redis.call('PEXPIRE', KEYS[1], ARGV[5] + ARGV[6])
for _, process in ipairs(waiting) do
  redis.pcall('PUBLISH', ARGV[9] .. process, 'C ' .. ARGV[8])
end
return {'ACCEPTED', now_text}
