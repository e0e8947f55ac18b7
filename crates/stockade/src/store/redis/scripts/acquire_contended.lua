-- Last part of acquire.lua, after common.lua.
load(raw)
spread()
local lease = ms * 1000
local wants, permits = string.sub(how, 1, 1), tonumber(string.sub(how, 2))

-- 1 if the caller's place is gone.
local gone = 0

local function granted(token, x)
  local wanted = redis.call('ZCARD', Q) > 0 and 1 or 0
  return string.format('GRANTED %s %.0f %.0f %d %d', token, x, now, gone, wanted)
end

-- The reply if the caller holds the resource now, else nil. A shared holder holds it until its own record expires.
local function holding()
  if mode == 'w' and holder.owner == me and holder.x > now then
    return granted(holder.token, holder.x)
  elseif mode == 'r' or mode == 's' then
    local record = redis.call('HGET', M, me)
    if record then
      local x, token = string.match(record, '^(%d+) (%d+)')
      if tonumber(x) > now then
        return granted(token, tonumber(x))
      end
    end
  end
end

local held = holding()
if held then
  return held
end

-- Asks the queue itself, because the state may have been deleted, or written again by a caller that saw no queue.
local waiting = redis.call('ZCARD', Q) > 0
local until_ = wait < 0 and now + 60000000 or now + wait * 1000
local record = string.format('%s %.0f %.0f %s %s', how, until_, lease, yield, tag)
local queued = waiting and redis.call('ZSCORE', Q, me)
if seq > 0 and not queued then
  gone = 1
end
local function enqueue()
  redis.call('ZADD', Q, fmt(seq), me)
  redis.call('HSET', W, me, record)
  keep_queue(until_)
  queued = true
end

-- The capacity that all present holders of permits and waiters for permits asked for; nil if there are none.
local function capacity_in_use()
  if mode == 's' then
    return capacity
  end
  for _, other in ipairs(waiting and redis.call('HVALS', W) or {}) do
    local theirs, deadline = string.match(other, '^s(%d+) (%d+)')
    if theirs and tonumber(deadline) > now then
      return tonumber(theirs)
    end
  end
end

if queued then
  -- The caller is alive, even if its record says that its wait is over.
  redis.call('HSET', W, me, record)
  keep_queue(until_)
elseif waiting and seq > 0 and wait ~= 0 then
  -- The caller gets its old place back before anybody behind it is served.
  enqueue()
end

expire()
if wants == 's' and not queued and seq == 0 then
  local present = capacity_in_use()
  if present and present ~= permits then
    grant()
    save()
    return string.format('CAPACITY %d %.0f', present, now)
  end
end
if waiting then
  if skip and mode ~= 'n' and admits(wants, permits) then
    prune()
  end
  grant()
  held = holding()
  if held then
    save()
    return held
  end
end

-- Removes some of those in the queue whose wait is over. Processes that died leave them, and while a waiter lives at the
-- head nothing else meets them. Those who are refused next look elsewhere in the queue.
local function thin(length)
  local from = now % length
  local some = redis.call('ZRANGE', Q, fmt(from), fmt(from + 15))
  for i, entry in ipairs(redis.call('HMGET', W, unpack(some))) do
    local deadline = string.match(entry or '', '^%S+ (%d+)')
    if not deadline or tonumber(deadline) <= now then
      remove({ some[i] })
      length = length - 1
    end
  end
  return length
end

local length = redis.call('ZCARD', Q)
if length > 0 and length >= cap and seq == 0 and wait ~= 0 then
  length = thin(length)
end
if length == 0 and admits(wants, permits) then
  local token, x = mint(F, now, fmt(now)), now + lease
  become(wants, permits)
  if wants == 'w' then
    holder = { c = '0', owner = me, token = token, x = x, len = lease, tag = tag }
  else
    share(me, token, x, '0', lease, yield, tag)
  end
  save()
  return granted(token, x)
end

-- remaining: the time until the caller could be served. A caller for a permit needs one permit to come free, any other
-- caller waits until all holders are gone. yielding: the readers that asked to be told of waiting writers. others: true
-- if there are other holders. There may be many readers, so they are read only for the first that waits and for polls:
-- who comes behind others has to tell nobody, and looks again when the first lease ends.
local remaining, yielding, others = 0, {}, false
if mode == 'w' then
  remaining = holder.x - now
elseif mode == 's' and wants == 's' or mode ~= 'n' and length > 0 and not queued then
  remaining = first - now
elseif mode ~= 'n' then
  local all = redis.call('HGETALL', M)
  for i = 1, #all, 2 do
    local x, yields = string.match(all[i + 1], '^(%d+) %d+ %d %d+ (%d)')
    remaining = math.max(remaining, tonumber(x) - now)
    if mode == 'r' and yields == '1' then
      yielding[#yielding + 1] = all[i]
    else
      others = true
    end
  end
end
local function recall()
  for _, owner in ipairs(yielding) do
    tell(owner, 'W')
  end
end
local rank = length
if not queued then
  -- A caller that had a place was within the limit when it got that place.
  local full = seq == 0 and length >= cap
  if wait == 0 then
    -- If somebody waits already, the holders have been told.
    local yields = length == 0 and #yielding > 0 and not others
    if yields then
      recall()
    end
    save()
    return string.format('BUSY %.0f %d %.0f %d', remaining, length, now, yields and 1 or 0)
  elseif full then
    save()
    return string.format('FULL %.0f %d %.0f', remaining, length, now)
  end
  if seq == 0 then
    local last = redis.call('ZRANGE', Q, -1, -1, 'WITHSCORES')[2]
    seq = math.max(now, last and last + 1 or 0)
  end
  enqueue()
  if length == 0 then
    recall()
  end
else
  -- This is a poll: tell the holders again, in case the first message was lost.
  recall()
  seq = tonumber(redis.call('ZSCORE', Q, me) or seq)
  rank = redis.call('ZRANK', Q, me) or 0
end
save()
return string.format('QUEUED %.0f %.0f %.0f %d %d', seq, remaining, now, rank, gone)
end

for _, call in ipairs(left) do
  local names = calls == 1 and KEYS or { KEYS[2 * call - 1], KEYS[2 * call] }
  local at = 2 + (call - 1) * own
  local answered, reply =
    pcall(serve, names, ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], own == 4 and ARGV[at + 4] or '')
  replies[call] = (answered or type(reply) == 'table') and reply or redis.error_reply('ERR ' .. tostring(reply))
end
return calls == 1 and replies[1] or replies
