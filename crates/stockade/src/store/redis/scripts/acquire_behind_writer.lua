-- Third part of acquire.lua, after mint.lua: a caller without a place queues behind an exclusive holder. The last part
-- would do the same, in twice the time. Anything unusual is left to it. That includes a full queue, and a long one
-- whose head has waited long enough: it removes those whose wait is over. A short queue leaves them to the release.
local queue, x, len = string.match(raw or '', '^w (%d) %d %S+ %d+ (%d+) (%d+)')
if x and seq == 0 and wait ~= 0 and string.sub(how, 1, 1) ~= 's' and string.sub(raw, 7, 34) ~= me then
  local remaining, length = tonumber(x) - now, redis.call('ZCARD', Q)
  local head = length < 32 or redis.call('HGET', W, redis.call('ZRANGE', Q, '0', '0')[1])
  local alive = head == true or head and tonumber(string.match(head, '^%S+ (%d+)')) > now
  -- An end that is further away than its lease shows that the clock was set back.
  if
    alive
    and remaining > 0
    and remaining <= len + 1000000
    and length < cap
    and (length > 0) == (queue == '1')
  then
    local last = redis.call('ZRANGE', Q, '-1', '-1', 'WITHSCORES')[2]
    local behind = string.format('%.0f', math.max(now, last and last + 1 or 0))
    -- Adds nothing if the caller is in the queue already.
    if redis.call('ZADD', Q, 'NX', behind, me) == 1 then
      local until_ = wait < 0 and now + 60000000 or now + wait * 1000
      redis.call('HSET', W, me, string.format('%s %.0f %s000 %s %s', how, until_, ms, yield, tag))
      local expiry = math.ceil(until_ / 1000) + 10000
      for _, key in ipairs({ Q, W }) do
        if redis.call('PEXPIRETIME', key) < expiry then
          redis.call('PEXPIREAT', key, string.format('%.0f', expiry))
        end
      end
      if length == 0 then
        redis.call('SET', L, 'w 1' .. string.sub(raw, 4), 'KEEPTTL')
      end
      if redis.call('PEXPIRETIME', L) < expiry + 2000 then
        redis.call('PEXPIREAT', L, string.format('%.0f', expiry + 2000))
      end
      return string.format('QUEUED %s %.0f %s %d 0', behind, remaining, written, length)
    end
  end
end
