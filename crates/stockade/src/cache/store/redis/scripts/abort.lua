-- Gives a token back unused, so that the processes that wait for its load try to load themselves.
--
-- After a load that failed, a hold keeps off, for a while, the callers that have an expired value to serve. The hold
-- ends at the latest when the stored value is deleted. Failures of loads of this key alone are counted. After two in a
-- row a hold keeps off all callers.
--
-- After a load whose value can't be stored, all load without a lease for a while.
--
-- KEYS: E entry (hash; each shape of the value has its own fields), I intents (hash), S sequence
-- ARGV: token, resource, inbox prefix, ms of the hold (0: none), shape, whether the failure counts (`1` or `0`), or `u`
--   for a value that can't be stored
-- Reply: {ABORTED, now}, or {REFUSED, now} if the token was no longer current
-- Messages: `C <resource>` to the inbox of each waiting process
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local now_text = string.format('%.0f', now)

local s = ':' .. ARGV[5]
if own_call('HGET', KEYS[1], 'tok' .. s) ~= ARGV[1] then
  return {'REFUSED', now_text}
end

local waiting, sign = {}, 'w' .. s .. ':'
for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
  if string.sub(field, 1, #sign) == sign then
    waiting[#waiting + 1] = string.sub(field, #sign + 1)
    redis.call('HDEL', KEYS[1], field)
  end
end
if tonumber(ARGV[4]) > 0 then
  redis.call('HSET', KEYS[1], (ARGV[6] == 'u' and 'free' or 'hold') .. s, string.format('%.0f', now + ARGV[4] * 1000))
  local kept = tonumber(ARGV[4])
  if ARGV[6] == '1' then
    local before = tonumber(redis.call('HGET', KEYS[1], 'fails' .. s) or '') or 0
    redis.call('HSET', KEYS[1], 'fails' .. s, string.format('%.0f', before + 1))
    -- The count must outlast the hold, or each failure would be the first.
    kept = kept * 2
  end
  if redis.call('HEXISTS', KEYS[1], 'v' .. s) == 0 and redis.call('PTTL', KEYS[1]) < kept then
    redis.call('PEXPIRE', KEYS[1], string.format('%.0f', kept))
  end
end
redis.call('HDEL', KEYS[1], 'tok' .. s, 'tokx' .. s, 'tokt' .. s, 'tokc' .. s)
for _, process in ipairs(waiting) do
  redis.pcall('PUBLISH', ARGV[3] .. process, 'C ' .. ARGV[2])
end
return {'ABORTED', now_text}
