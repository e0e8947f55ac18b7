-- Last part of adopt.lua, after common.lua.
load(redis.call('GET', L))
spread()
local lease, old = ARGV[4] * 1000, ARGV[5]
if mode ~= ARGV[7] then
  return string.format('GONE %.0f', now)
elseif mode == 'w' and (holder.owner == old or holder.owner == me) and holder.token == ARGV[6] and holder.x > now then
  holder.owner, holder.c, holder.x, holder.len = me, '0', now + lease, lease
  save()
  return string.format('ADOPTED %.0f %.0f', holder.x, now)
elseif mode == 'r' or mode == 's' then
  local holder = redis.call('HEXISTS', M, me) == 1 and me or old
  local record = redis.call('HGET', M, holder)
  if record then
    local x, token, len, yield, tag = string.match(record, '^(%d+) (%d+) %d (%d+) (%d) (.*)$')
    x, len = tonumber(x), tonumber(len)
    if x > now and token == ARGV[6] then
      if yield ~= '2' then
        x, len = now + lease, lease
      end
      share(me, token, x, '0', len, yield, tag)
      if holder == old then
        redis.call('HDEL', M, old)
      end
      save()
      return string.format('ADOPTED %.0f %.0f', x, now)
    end
  end
end
return string.format('GONE %.0f', now)
