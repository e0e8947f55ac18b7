-- Third part of release.lua, after mint.lua: an exclusive holder releases, and the first in the queue wants the resource
-- exclusively. The last part would do the same, in twice the time. Anything unusual is left to it, and so is a cluster,
-- where messages need another command.
if raw and string.sub(raw, 1, 4) == 'w 1 ' and string.sub(raw, 7, 34) == me and not string.find(chan, '{', 1, true) then
  local head = redis.call('ZRANGE', Q, '0', '0')[1]
  local record = head and redis.call('HGET', W, head)
  local deadline, lease, tag = string.match(record or '', '^w (%d+) (%d+) %d (.*)$')
  if deadline and tonumber(deadline) > now then
    local written = #time[2] == 6 and time[1] .. time[2] or string.format('%.0f', now)
    local len = math.min(tonumber(lease), G)
    -- First, because it may fail: the waiter then keeps its place.
    local token, x = mint(F, now, written), string.format('%.0f', now + len)
    redis.call('HDEL', W, head)
    redis.call('ZREM', Q, head)
    local message = 'G ' .. head .. ' ' .. token .. ' ' .. x .. ' ' .. written .. ' ' .. string.match(L, '}l:(.*)$')
    local heard = redis.pcall('PUBLISH', chan .. string.sub(head, 1, 16), message)
    if heard ~= 0 or not skip then
      local ends, waits = math.ceil((now + len) / 1000), redis.call('PEXPIRETIME', Q)
      local queue = waits == -2 and '0' or '1'
      if waits ~= -2 then
        ends = math.max(ends, waits + 2000)
      end
      local of = head .. ' ' .. token .. ' ' .. x .. ' ' .. string.format('%.0f', len) .. ' ' .. tag
      redis.call('SET', L, 'w ' .. queue .. ' 1 ' .. of, 'PXAT', string.format('%.0f', ends))
      return 1
    end
    -- Its process is gone. The last part grants to the next.
  end
end
