-- Last part of invalidate.lua, begin.lua and end.lua. They set these variables: reply (its first words), resource,
-- bucket, channel, inbox (the prefix of inbox channels). Drops the value in every shape, voids the token of each load
-- that may have read the old row, and tells every process.
local waiting = {}
for _, field in ipairs(own_call('HKEYS', KEYS[1])) do
  waiting[#waiting + 1] = string.match(field, '^w:%x+:(.+)$')
end
redis.call('DEL', KEYS[1])
local seq = next_number(KEYS[3])
-- Published in the same script as the DEL: if a message came before the DEL, a reader could fetch the old value again.
redis.pcall('PUBLISH', channel, bucket .. ' ' .. seq .. ' ' .. resource)
for _, process in ipairs(waiting) do
  redis.pcall('PUBLISH', inbox .. process, 'C ' .. resource)
end
reply[#reply + 1] = seq
return reply
