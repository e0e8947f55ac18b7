-- Takes all of these resources exclusively, or changes nothing when one of them is held or waited for.
-- KEYS: L F Q W M of each resource, see common.lua.
-- ARGV: lease ms, stamp µs and the age in ms from which the command is refused, as for acquire.lua, tag, then the owner
--   of each resource.
-- Reply: `HELD token ...` in the order of KEYS, `TAKEN now`, or `STALE now`, times in µs.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local stamp = tonumber(ARGV[2])
if stamp ~= 0 and (now - stamp > ARGV[3] * 1000 or stamp - now > 100000) then
  return string.format('STALE %.0f', now)
end

-- Without L there is neither holder nor queue. With it there may be no holder any more: whoever waits comes first then,
-- and that is for the script to decide that takes one resource.
for i = 1, #KEYS, 5 do
  if redis.call('EXISTS', KEYS[i]) == 1 then
    return string.format('TAKEN %.0f', now)
  end
end

-- All tokens before the first lease: a bucket without tokens left must not leave the others held. The first write is
-- also the one that a server out of memory refuses.
local tokens = {}
for i = 2, #KEYS, 5 do
  local token = string.format('%.0f', now)
  local last = redis.call('SET', KEYS[i], token, 'GET')
  if last and not tonumber(last) then
    redis.call('SET', KEYS[i], last)
    return redis.error_reply('FOREIGN the key of the token floor holds what is no number')
  end
  if last and tonumber(last) >= now then
    if tonumber(last) + 1 >= 9007199254740992 then
      redis.call('SET', KEYS[i], last)
      return redis.error_reply('ERR the fencing tokens of this bucket are used up')
    end
    token = string.format('%.0f', last + 1)
    redis.call('SET', KEYS[i], token)
  end
  tokens[#tokens + 1] = token
end
for i, token in ipairs(tokens) do
  local state = string.format('w 0 0 %s %s %.0f %s000 %s', ARGV[4 + i], token, now + ARGV[1] * 1000, ARGV[1], ARGV[4])
  redis.call('SET', KEYS[i * 5 - 4], state, 'PX', ARGV[1])
end
return 'HELD ' .. table.concat(tokens, ' ')
