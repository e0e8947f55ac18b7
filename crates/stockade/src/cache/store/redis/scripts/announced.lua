-- Returns some of the standing intents of the cache, those of the oldest transactions first.
--
-- KEYS: A intents of the cache (sorted set, see begin.lua)
-- ARGV: rank of the first, rank of the last
-- Reply: {ANNOUNCED, now, intent, transaction id, resource, ...}

-- Whether the text is UTF-8, roughly: without the characters of two to four bytes, no byte above 127 is left.
local function is_text(text)
  for _, character in ipairs({'[\194-\223][\128-\191]', '[\224-\239][\128-\191][\128-\191]',
    '[\240-\244][\128-\191][\128-\191][\128-\191]'}) do
    text = string.gsub(text, character, ' ')
  end
  return not string.find(text, '[\128-\255]')
end

local time = redis.call('TIME')
local reply = {'ANNOUNCED', string.format('%.0f', time[1] * 1000000 + time[2])}
local members = own_call('ZRANGE', KEYS[1], ARGV[1], ARGV[2], 'WITHSCORES')
for i = 1, #members, 2 do
  local intent, resource = string.match(members[i], '^(%x+) (.+)$')
  local xid = tonumber(members[i + 1])
  local is_id = xid >= 0 and xid <= 9007199254740991 and xid % 1 == 0
  if intent and is_id and #resource <= 512 and is_text(resource) then
    reply[#reply + 1] = intent
    reply[#reply + 1] = string.format('%.0f', xid)
    reply[#reply + 1] = resource
  else
    -- No writer of a cache adds such a member.
    redis.call('ZREM', KEYS[1], members[i])
  end
end
return reply
