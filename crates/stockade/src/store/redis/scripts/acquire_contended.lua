-- Second part of acquire.lua, after common.lua.
load(raw)
local lease = ARGV[3] * 1000

local function granted(token, x)
  return string.format('GRANTED %s %.0f %.0f', token, x, now)
end

-- Whether the caller holds the resource now; a reader's own record counts while it has not run out.
local function holding()
  if mode == 'w' and hold.owner == me and hold.x > now then
    return granted(hold.token, hold.x)
  elseif mode == 'r' then
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

local waiting = raw and string.sub(raw, 3, 3) == '1'
local until_ = wait < 0 and now + 60000000 or now + wait * 1000
local record = string.format('%s %.0f %.0f %s %s', ARGV[2], until_, lease, yield, ARGV[6])
local queued = waiting and redis.call('HEXISTS', W, me) == 1
local function enqueue()
  redis.call('ZADD', Q, fmt(seq), me)
  redis.call('HSET', W, me, record)
  keep_queue(until_)
  queued = true
end

if queued then
  -- The caller is alive, whatever its record said.
  redis.call('HSET', W, me, record)
  keep_queue(until_)
elseif waiting and seq > 0 and wait ~= 0 then
  -- Back to its old place before anybody behind it is served.
  enqueue()
end

-- A reader that joins readers needs none of them looked at, but the dead among them must go some time.
if waiting or mode ~= 'r' or ARGV[2] ~= 'r' or redis.call('HLEN', M) % 64 == 63 then
  expire()
end
if waiting then
  if mode == 'r' and ARGV[2] == 'r' and skip then
    prune()
  end
  grant()
  held = holding()
  if held then
    save()
    return held
  end
end

local length = redis.call('ZCARD', Q)
if length == 0 and (mode == 'n' or (mode == 'r' and ARGV[2] == 'r')) then
  local token, x = mint(), now + lease
  if ARGV[2] == 'w' then
    mode, hold = 'w', { c = '0', owner = me, token = token, x = x, len = lease, tag = ARGV[6] }
  else
    add_reader(me, token, x, '0', lease, yield, ARGV[6])
  end
  save()
  return granted(token, x)
end

local remaining = mode == 'w' and hold.x - now or mode == 'r' and latest - now or 0
if not queued then
  -- A place given earlier was within the limit then.
  local full = seq == 0 and length >= cap
  if wait == 0 or full then
    save()
    return string.format('%s %.0f %d %.0f', wait == 0 and 'BUSY' or 'FULL', remaining, length, now)
  end
  if seq == 0 then
    local last = redis.call('ZRANGE', Q, -1, -1, 'WITHSCORES')[2]
    seq = math.max(now, last and last + 1 or 0)
  end
  enqueue()
  if mode == 'r' and ARGV[2] == 'w' then
    for _, owner in pairs(yielding) do
      tell(owner, 'W')
    end
  end
else
  seq = tonumber(redis.call('ZSCORE', Q, me) or seq)
end
save()
return string.format('QUEUED %.0f %.0f %.0f %d', seq, remaining, now, redis.call('ZRANK', Q, me) or 0)
