-- Third part of acquire.lua, after mint.lua: a caller without a place comes behind others that wait for an exclusive
-- holder. This does what the last part does, and half as long. Anything else is left to the last part, which also removes
-- those from the head of a full queue whose wait is over.
local x, len = string.match(raw or '', '^w 1 %d %S+ %d+ (%d+) (%d+)')
if x and seq == 0 and wait ~= 0 and string.sub(how, 1, 1) ~= 's' and string.sub(raw, 7, 34) ~= me then
  local remaining, length = tonumber(x) - now, redis.call('ZCARD', Q)
  -- An end that is further away than its lease shows that the clock was set back.
  if remaining > 0 and remaining <= len + 1000000 and length > 0 and length < cap then
    seq = math.max(now, redis.call('ZRANGE', Q, '-1', '-1', 'WITHSCORES')[2] + 1)
    local place = string.format('%.0f', seq)
    if redis.call('ZADD', Q, 'NX', place, me) == 1 then
      local until_ = wait < 0 and now + 60000000 or now + wait * 1000
      redis.call('HSET', W, me, string.format('%s %.0f %s000 %s %s', how, until_, ms, yield, tag))
      local expiry = math.ceil(until_ / 1000) + 10000
      for _, key in ipairs({ Q, W }) do
        if redis.call('PEXPIRETIME', key) < expiry then
          redis.call('PEXPIREAT', key, string.format('%.0f', expiry))
        end
      end
      expiry = expiry + 2000
      if redis.call('PEXPIRETIME', L) < expiry then
        redis.call('PEXPIREAT', L, string.format('%.0f', expiry))
      end
      return string.format('QUEUED %s %.0f %s %d 0', place, remaining, written, length)
    end
    -- The caller is in the queue already.
    seq = 0
  end
end
