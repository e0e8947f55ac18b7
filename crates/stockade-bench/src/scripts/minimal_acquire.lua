-- The least that a fair and fenced lock can ask of the server when nobody else wants it.
-- KEYS: state, floor of the tokens. ARGV: lease ms, owner. Reply: the token, or BUSY.
local time = redis.call('TIME')
local token = time[1] .. string.sub('00000' .. time[2], -6)
local last = redis.call('SET', KEYS[2], token, 'GET')
if last and tonumber(last) >= tonumber(token) then
  token = string.format('%.0f', last + 1)
  redis.call('SET', KEYS[2], token)
end
if redis.call('SET', KEYS[1], 'w 0 ' .. ARGV[2] .. ' ' .. token, 'NX', 'GET', 'PX', ARGV[1]) then
  return 'BUSY'
end
return token
