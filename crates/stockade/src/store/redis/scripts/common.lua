-- Helpers of the lock scripts. Before them a script sets: now (µs), me (the caller's owner, or an empty string), G (µs of
-- a handed-over lease), skip (whether a waiter without a subscriber is passed over), chan (prefix of inbox channels).
--
-- L  string: `w queue unconfirmed owner token x len tag`, `r queue`, `n 1`. queue: 1 when somebody waits. unconfirmed: 1
--    for a grant that was handed over and not renewed since. x: end of the lease, len: the duration that led to it, µs.
-- F  string: the floor of the bucket's tokens, without expiry.
-- Q  sorted set: owner by place.   W  hash: owner -> `mode deadline lease yield tag`.
-- M  hash: reader -> `x token unconfirmed lease yield tag`; yield 1: wants to hear of waiting writers, 2: may not renew.
-- L outlives the others, so that without L there is neither holder nor queue.
--
-- Numbers are written with %.0f, since Lua's own conversion rounds from 15 digits on.
local L, F, Q, W, M = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local mode, hold, latest, bad, yielding, more = 'n', nil, 0, nil, {}, false

local function fmt(number)
  return string.format('%.0f', number)
end

local function process(owner)
  return string.sub(owner, 1, 16)
end

-- Returns how many heard it; -1 when that can't be known. A failed publish must not fail a script that has written.
local function tell(owner, letter, rest)
  local message = letter .. ' ' .. owner .. (rest or '') .. ' ' .. fmt(now)
  local heard = redis.pcall('PUBLISH', chan .. process(owner), message)
  return type(heard) == 'number' and heard or -1
end

-- Above every token of the bucket before, whatever the clock did.
local function mint()
  local token = now
  local last = tonumber(redis.call('GET', F) or 0)
  if last >= token then
    token = last + 1
  end
  if token >= 9007199254740992 then
    error('the fencing tokens of this bucket are used up')
  end
  redis.call('SET', F, fmt(token))
  return fmt(token)
end

local function load(state)
  mode = state and string.sub(state, 1, 1) or 'n'
  if mode == 'w' then
    local c, owner, token, x, len, tag = string.match(state, '^w %d (%d) (%S+) (%d+) (%d+) (%d+) (.*)$')
    hold = { c = c, owner = owner, token = token, x = tonumber(x), len = tonumber(len), tag = tag }
  end
end

local function add_reader(owner, token, x, c, len, yield, tag)
  redis.call('HSET', M, owner, string.format('%.0f %s %s %.0f %s %s', x, token, c, len, yield, tag))
  mode, latest = 'r', math.max(latest, x)
end

-- Takes waiters of one process out of the queue.
local function remove(owners)
  if #owners > 0 then
    redis.call('ZREM', Q, unpack(owners))
    redis.call('HDEL', W, unpack(owners))
    tell(owners[1], 'D', #owners > 1 and ' ' .. table.concat(owners, ' ', 2))
  end
end

-- Ends a lease that ran out. One that was handed over and never confirmed shows that its process does not listen.
local function ended(owner, c)
  tell(owner, 'X')
  if c == '1' and process(owner) ~= process(me) then
    bad = bad or {}
    bad[process(owner)] = {}
  end
end

-- Ends what ran out. An end further away than its lease shows that the clock was set back: it is moved up to one lease.
local function expire()
  if mode == 'w' then
    hold.x = hold.x > now + hold.len + 1000000 and now + hold.len or hold.x
    if hold.x <= now then
      ended(hold.owner, hold.c)
      mode, hold = 'n', nil
    end
  elseif mode == 'r' then
    local all, left = redis.call('HGETALL', M), 0
    latest = 0
    for i = 1, #all, 2 do
      local x, token, c, len, yield, tag = string.match(all[i + 1], '^(%d+) (%d+) (%d) (%d+) (%d) (.*)$')
      x, len = tonumber(x), tonumber(len)
      if x > now + len + 1000000 then
        x = now + len
        add_reader(all[i], token, x, c, len, yield, tag)
      end
      if x <= now then
        redis.call('HDEL', M, all[i])
        ended(all[i], c)
      else
        left, latest = left + 1, math.max(latest, x)
        if yield == '1' then
          yielding[process(all[i])] = all[i]
        end
      end
    end
    if left == 0 then
      mode = 'n'
    end
  end
  if bad then
    -- One such process may have many waiters, each of which would cost another lease. Those alive come back.
    for _, owner in ipairs(redis.call('ZRANGE', Q, 0, -1)) do
      local of = bad[process(owner)]
      if of then
        of[#of + 1] = owner
        if #of == 100 then
          remove(of)
          bad[process(owner)] = {}
        end
      end
    end
    for _, rest in pairs(bad) do
      remove(rest)
    end
  end
end

-- Removes waiters at the head whose process has no subscription: a dead writer there would keep readers from readers.
local function prune()
  for _ = 1, 256 do
    local head = redis.call('ZRANGE', Q, 0, 0)[1]
    if not head or process(head) == process(me) then
      return
    end
    local count = redis.pcall('PUBSUB', 'NUMSUB', chan .. process(head))
    if count.err or tonumber(count[2]) ~= 0 then
      return
    end
    remove({ head })
  end
end

-- Hands the resource to the head of the queue, and to the readers right behind a reader.
local function grant()
  local readers, deaf = 0, {}
  while true do
    local head = redis.call('ZRANGE', Q, 0, 0)[1]
    if not head then
      return
    end
    local record = redis.call('HGET', W, head)
    local wants, deadline, lease, yield, tag
    if record then
      wants, deadline, lease, yield, tag = string.match(record, '^(%a) (%d+) (%d+) (%d) (.*)$')
    end
    if not record or tonumber(deadline) <= now then
      remove({ head })
    elseif mode == 'w' or (mode == 'r' and wants == 'w') then
      return
    elseif readers == 256 then
      more = true
      return
    elseif deaf[process(head)] and head ~= me then
      -- Thousands may wait behind the first of a process that died.
      redis.call('ZREM', Q, head)
      redis.call('HDEL', W, head)
    else
      redis.call('ZREM', Q, head)
      redis.call('HDEL', W, head)
      local token, len = mint(), math.min(tonumber(lease), G)
      local heard = tell(head, 'G', ' ' .. token .. ' ' .. fmt(now + len))
      -- The caller itself reads the grant in the reply.
      if heard ~= 0 or not skip or head == me then
        if wants == 'w' then
          mode, hold = 'w', { c = '1', owner = head, token = token, x = now + len, len = len, tag = tag }
        else
          add_reader(head, token, now + len, '1', len, yield, tag)
          readers = readers + 1
        end
      else
        deaf[process(head)] = true
      end
    end
  end
end

local function raise_expiry(key, at)
  local old = redis.call('PEXPIRETIME', key)
  if old < at then
    redis.call('PEXPIREAT', key, fmt(at))
    return at
  end
  return old
end

local function keep_queue(deadline)
  local at = math.ceil(deadline / 1000) + 10000
  raise_expiry(Q, at)
  raise_expiry(W, at)
end

local function save()
  local queue = redis.call('ZCARD', Q) > 0 and 1 or 0
  if mode == 'n' and queue == 0 then
    redis.call('DEL', L, W, M)
    return
  end
  local at, state = 0, 'n 1'
  if mode == 'w' then
    at = math.ceil(hold.x / 1000)
    state = string.format('w %d %s %s %s %.0f %.0f %s', queue, hold.c, hold.owner, hold.token, hold.x, hold.len, hold.tag)
  elseif mode == 'r' then
    at = math.max(redis.call('PEXPIRETIME', M), math.ceil(latest / 1000))
    state = 'r ' .. queue
  end
  if queue == 1 then
    at = math.max(at, redis.call('PEXPIRETIME', Q) + 2000)
  end
  if mode == 'r' then
    -- With a queue the records of readers stay until a script has seen them end.
    raise_expiry(M, at)
  end
  redis.call('SET', L, state, 'PXAT', fmt(at))
end
