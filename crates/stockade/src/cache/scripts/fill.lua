-- Stores a value under the token it was loaded under, unless that token is no longer current, a writer is committing, or
-- a tag of the value was invalidated since the token was given.
--
-- KEYS: E entry (hash), I intents (hash), S sequence, T tags (sorted set, see tags.lua)
-- ARGV: token, v, kind: `value` or `null`, ver, ttl ms, grace ms, load us, resource, inbox prefix, run id,
--   tags, one to a line; lease ms
-- Reply: {ACCEPTED, now}, {REFUSED, now}, or {OUTDATED, now} for a tag: the token is still current and has to be given back
-- Messages: `C <resource>` to the inbox of each waiting process
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local now_text = string.format('%.0f', now)

if redis.call('EXISTS', KEYS[2]) == 1 or redis.call('HGET', KEYS[1], 'tok') ~= ARGV[1] then
  return {'REFUSED', now_text}
end

local tags, stamp = ARGV[11], nil
if tags ~= '' then
  stamp = redis.call('HGET', KEYS[1], 'tokt')
  if not tags_hold(KEYS[4], ARGV[10], stamp, tags) then
    return {'OUTDATED', now_text}
  end
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
if tags ~= '' then
  redis.call('HSET', KEYS[1], 'tags', tags, 'ts', stamp)
  -- A stamp that outdates it must not be forgotten before it ends.
  redis.call('ZADD', KEYS[4], 'LT', string.format('%.0f', -1000 * (ARGV[5] + ARGV[6] + ARGV[12])), 'h')
end
for _, process in ipairs(waiting) do
  redis.pcall('PUBLISH', ARGV[9] .. process, 'C ' .. ARGV[8])
end
return {'ACCEPTED', now_text}
