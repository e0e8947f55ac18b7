-- Last part of adopt.lua, after common.lua.
load(redis.call('GET', L))
spread()
local lease, old = ARGV[4] * 1000, ARGV[5]
if mode ~= ARGV[7] then
  return string.format('GONE %.0f', now)
elseif mode == 'w' and (holder.owner == me or holder.owner == old and holder.token == ARGV[6]) and holder.x > now then
  if holder.owner == old then
    holder.owner, holder.token = me, mint(F, now, fmt(now))
  end
  holder.c, holder.x, holder.len = '0', now + lease, lease
  save()
  return string.format('ADOPTED %s %.0f %.0f', holder.token, holder.x, now)
elseif mode == 'r' or mode == 's' then
  local holder = redis.call('HEXISTS', M, me) == 1 and me or old
  local record = redis.call('HGET', M, holder)
  if record then
    local x, token, len, yield, tag = string.match(record, '^(%d+) (%d+) %d (%d+) (%d) (.*)$')
    x, len = tonumber(x), tonumber(len)
    if x > now and (holder == me or token == ARGV[6]) then
      if yield ~= '2' then
        x, len = now + lease, lease
      end
      if holder == old then
        token = mint(F, now, fmt(now))
        redis.call('HDEL', M, old)
      end
      share(me, token, x, '0', len, yield, tag)
      save()
      return string.format('ADOPTED %s %.0f %.0f', token, x, now)
    end
  end
end
return string.format('GONE %.0f', now)
