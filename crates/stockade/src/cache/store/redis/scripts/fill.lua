-- Stores a loaded value. Refused if its token is no longer current or a writer is committing. Also refused if the cache
-- was cleared or a tag of the value was invalidated since the token was given.
--
-- KEYS: E entry (hash; each shape of the value has its own fields), I intents (hash), S sequence, T tags (sorted set,
--   see tags.lua), C epoch (string, see epoch.lua)
-- ARGV: token; payload; one text of `value` or `null`, version or `-`, and us of the load; ttl ms; grace ms; resource;
--   inbox prefix; run id; tags, one in each line; lease ms; shape
-- Reply: {ACCEPTED, now}, {REFUSED, now}, or {OUTDATED, now} because of a clear or a tag: then the token is still
--   current and must be given back
-- Messages: `C <resource>` to the inbox of each waiting process
--
-- A value is one field, `v:<shape>`, so that a read needs nothing else: a line of words, a line for each tag, an empty
-- line, the payload. The words: fresh until, loaded at, epoch of the cache, epoch and newest stamp of the table of tags
-- (0 without tags), `value` or `null`, version or `-`, us of the load. The field `exp:<shape>` repeats the first word
-- for other versions of the program. They can't read the value, and keep it while it may be of use.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local now_text = string.format('%.0f', now)
local s = ':' .. ARGV[11]

if redis.call('EXISTS', KEYS[2]) == 1 or own_call('HGET', KEYS[1], 'tok' .. s) ~= ARGV[1] then
  return {'REFUSED', now_text}
end

local epoch = redis.call('HGET', KEYS[1], 'tokc' .. s)
if not epoch or redis.pcall('GET', KEYS[5]) ~= epoch then
  return {'OUTDATED', now_text}
end

local tags, stamp = ARGV[9], '0 0'
if tags ~= '' then
  stamp = redis.call('HGET', KEYS[1], 'tokt' .. s)
  if not tags_hold(KEYS[4], ARGV[8], stamp, tags) then
    return {'OUTDATED', now_text}
  end
end

local waiting, own, others = {}, {}, {}
for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
  local name, shape, process = string.match(field, '^(%a+)(:%x+):?(.*)$')
  if shape == s then
    own[#own + 1] = field
    if name == 'w' then
      waiting[#waiting + 1] = process
    end
  elseif shape then
    others[shape] = true
  end
end

-- The fields of other versions of the program stay as long as those of one of them may be of use to it.
local keep = ARGV[4] + ARGV[5]
local alone = true
for shape in pairs(others) do
  local ends = redis.call('HMGET', KEYS[1], 'exp' .. shape, 'tokx' .. shape)
  if math.max((tonumber(ends[1]) or 0) + ARGV[5] * 1000, tonumber(ends[2]) or 0) > now then
    alone = false
  end
end
if alone then
  redis.call('DEL', KEYS[1])
else
  for _, field in ipairs(own) do
    redis.call('HDEL', KEYS[1], field)
  end
  keep = math.max(keep, redis.call('PTTL', KEYS[1]))
end
local expires = string.format('%.0f', now + ARGV[4] * 1000)
local words = expires .. ' ' .. now_text .. ' ' .. epoch .. ' ' .. stamp .. ' ' .. ARGV[3]
redis.call('HSET', KEYS[1], 'v' .. s, words .. '\n' .. tags .. '\n\n' .. ARGV[2], 'exp' .. s, expires)
redis.call('PEXPIRE', KEYS[1], string.format('%.0f', keep))
if tags ~= '' then
  -- The stamp of a tag must be kept as long as this value may be served. The fields may stay longer, because of another
  -- version's fields in the same entry, but the value is not served then.
  redis.call('ZADD', KEYS[4], 'LT', string.format('%.0f', -1000 * (ARGV[4] + ARGV[5] + ARGV[10])), 'h')
end
for _, process in ipairs(waiting) do
  redis.pcall('PUBLISH', ARGV[7] .. process, 'C ' .. ARGV[6])
end
return {'ACCEPTED', now_text}
