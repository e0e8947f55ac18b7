-- Drops the value and voids the token of a load that may have read the old row, and tells every process.
--
-- KEYS: E entry (hash), I intents (hash), S sequence
-- ARGV: resource, bucket, channel, inbox prefix
-- Reply: {DROPPED, now, seq}
-- Messages: `<bucket> <seq> <resource>` to the channel; `C <resource>` to the inbox of each waiting process
local time = redis.call('TIME')
local now_text = string.format('%.0f', time[1] * 1000000 + time[2])

local waiting = {}
for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
  if string.sub(field, 1, 2) == 'w:' then
    waiting[#waiting + 1] = string.sub(field, 3)
  end
end
redis.call('DEL', KEYS[1])
local seq = string.format('%.0f', redis.call('INCR', KEYS[3]))
-- In the same script as the DEL: a message before it would let a reader fetch the old value once more.
redis.pcall('PUBLISH', ARGV[3], ARGV[2] .. ' ' .. seq .. ' ' .. ARGV[1])
for _, process in ipairs(waiting) do
  redis.pcall('PUBLISH', ARGV[4] .. process, 'C ' .. ARGV[1])
end
return {'DROPPED', now_text, seq}
