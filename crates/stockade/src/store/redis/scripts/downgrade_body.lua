-- Last part of downgrade.lua, after common.lua.
load(redis.call('GET', L))
spread()
local lease, result = ARGV[3] * 1000, 0
if mode == 'w' and holder.owner == me and holder.token == ARGV[4] then
  become('r')
  share(me, holder.token, now + lease, '0', lease, '0', holder.tag)
  holder, result = nil, 1
  grant()
  save()
elseif mode == 'r' then
  local record = redis.call('HGET', M, me)
  local token, yield, tag = string.match(record or '', '^%d+ (%d+) %d %d+ (%d) (.*)$')
  if token == ARGV[4] then
    result = 2
    if yield ~= '2' then
      share(me, token, now + lease, '0', lease, yield, tag)
      save()
      result = 1
    end
  end
end
return string.format('%d %.0f', result, now)
