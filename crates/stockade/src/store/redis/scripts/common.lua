-- Helpers of the lock scripts, after names.lua and mint.lua. Before them a script sets: now (µs), me (the caller's
-- owner, or an empty string), G (µs of a handed-over lease), skip (whether a waiter without a subscriber is passed
-- over), chan (prefix of inbox channels).
--
-- key  type         what it holds
-- L    string       `w queue unconfirmed owner token x len tag`: one exclusive holder
--                   `r queue first at`: readers, see M
--                   `s queue first at capacity`: holders of the permits of a semaphore, see M
--                   `n 1`: nobody holds the resource, and somebody waits
-- F    string       the floor of the tokens of the bucket, without expiry
-- Q    sorted set   owner by place
-- W    hash         owner -> `mode deadline lease yield tag`: who waits
-- M    hash         owner -> `x token unconfirmed len yield tag`: readers or holders of permits
-- L outlives the others, so that without L there is neither holder nor queue.
--
-- field         value
-- queue         1 when somebody waits, else 0
-- unconfirmed   1 for a grant that was handed over and not renewed since, else 0
-- owner         28 characters: the process in 16, a dot, a number in 11. In an exclusive L it begins at byte 7
-- token         the fencing token
-- x             the end of the lease, µs
-- len           the length of the lease that ends at x, µs
-- first         no lease of the shared holders ends before this, µs
-- at            when L was written, µs: a clock that shows less was set back
-- capacity      how many permits there are
-- mode          w, r, or s and the capacity
-- deadline      the end of the wait, µs
-- lease         the lease that is asked for, µs
-- yield         1: wants to hear of waiting writers. 2: may not renew. Else 0
-- tag           a text for people, to the end of the record
--
-- Messages to an inbox are `letter owner ... now`; the table of letters is with `Message` in messages/.
--
-- Numbers are written with %.0f, since Lua's own conversion rounds from 15 digits on.
local mode, holder, bad, more = 'n', nil, nil, false
-- Of shared holders: how many may be, and bounds of the ends of their leases.
local capacity, first, at, latest = 0, math.huge, 0, 0

local function fmt(number)
  return string.format('%.0f', number)
end

local function process(owner)
  return string.sub(owner, 1, 16)
end

-- In a cluster inboxes are sharded channels in the slot of the keys; their prefix has a hash tag then. These commands
-- are not written out below: elsewhere nobody needs leave to run them.
local sharded = string.find(chan, '{', 1, true) and { 'SPUBLISH', 'PUBSUB', 'SHARDNUMSUB' }

-- Returns how many heard it; -1 when that can't be known. A failed publish must not fail a script that has written.
local function tell(owner, letter, rest, resource)
  local message = letter .. ' ' .. owner .. (rest or '') .. ' ' .. fmt(now) .. (resource or '')
  local inbox = chan .. process(owner)
  local heard = sharded and redis.pcall(sharded[1], inbox, message) or redis.pcall('PUBLISH', inbox, message)
  return type(heard) == 'number' and heard or -1
end

-- What is no state is neither taken for free nor overwritten: somebody put it there.
local function known(found)
  if not found then
    error({ err = 'FOREIGN the key of the lock holds what is no state of a lock' })
  end
end

local function load(state)
  mode = state and string.sub(state, 1, 1) or 'n'
  if mode == 'w' then
    local c, owner, token, x, len, tag = string.match(state, '^w %d (%d) (%S+) (%d+) (%d+) (%d+) (.*)$')
    known(c)
    holder = { c = c, owner = owner, token = token, x = tonumber(x), len = tonumber(len), tag = tag }
  elseif mode == 'n' then
    known(not state or state == 'n 1')
  else
    local earliest, written, permits = string.match(state, '^[rs] %d (%d+) (%d+) ?(%d*)$')
    known(earliest)
    first, at, capacity = tonumber(earliest), tonumber(written), tonumber(permits) or 0
    if redis.call('HLEN', M) == 0 then
      -- The records were deleted: there is no holder to wait for.
      mode, first = 'n', math.huge
    end
  end
end

-- Gives the resource a mode in which it is held. Records of a state that was deleted are nobody's.
local function become(wants, permits)
  if wants ~= 'w' and mode ~= wants then
    redis.call('DEL', M)
  end
  mode, capacity = wants, permits
end

-- Writes the record of a shared holder; the mode is the caller's to set.
local function share(owner, token, x, c, len, yield, tag)
  redis.call('HSET', M, owner, string.format('%.0f %s %s %.0f %s %s', x, token, c, len, yield, tag))
  first, latest = math.min(first, x), math.max(latest, x)
end

-- Whether one more gets in beside the present holders.
local function admits(wants, permits)
  if wants == 's' and mode == 's' then
    return permits == capacity and redis.call('HLEN', M) < capacity
  end
  return mode == 'n' or (mode == 'r' and wants == 'r')
end

local function leave(owner)
  redis.call('HDEL', W, owner)
  return redis.call('ZREM', Q, owner) == 1
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
    holder.x = holder.x > now + holder.len + 1000000 and now + holder.len or holder.x
    if holder.x <= now then
      ended(holder.owner, holder.c)
      mode, holder = 'n', nil
    end
  elseif mode ~= 'n' and (first <= now or now < at) then
    -- Shared holders may be many, and are looked at only when one of them may have ended.
    local all = redis.call('HGETALL', M)
    first = math.huge
    for i = 1, #all, 2 do
      local x, token, c, len, yield, tag = string.match(all[i + 1], '^(%d+) (%d+) (%d) (%d+) (%d) (.*)$')
      x, len = tonumber(x), tonumber(len)
      if x <= now then
        redis.call('HDEL', M, all[i])
        ended(all[i], c)
      elseif x > now + len + 1000000 then
        share(all[i], token, now + len, c, len, yield, tag)
      else
        first = math.min(first, x)
      end
    end
    if first == math.huge then
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
    local inbox = chan .. process(head)
    local count = sharded and redis.pcall(sharded[2], sharded[3], inbox) or redis.pcall('PUBSUB', 'NUMSUB', inbox)
    if count.err or tonumber(count[2]) ~= 0 then
      return
    end
    remove({ head })
  end
end

-- Hands the resource to the head of the queue, and to those right behind who share it: readers, or takers of free
-- permits.
local function grant()
  local shared, deaf = 0, {}
  while true do
    local head = redis.call('ZRANGE', Q, 0, 0)[1]
    if not head then
      return
    end
    local record = redis.call('HGET', W, head)
    local wants, permits, deadline, lease, yield, tag
    if record then
      wants, permits, deadline, lease, yield, tag = string.match(record, '^(%a)(%d*) (%d+) (%d+) (%d) (.*)$')
      permits = tonumber(permits)
    end
    if not record or tonumber(deadline) <= now then
      remove({ head })
    elseif not admits(wants, permits) then
      return
    elseif deaf[process(head)] and head ~= me then
      -- Thousands may wait behind the first of a process that died.
      leave(head)
    elseif shared >= 256 and head ~= me then
      -- The server has others to serve, too. Who is next asks for itself and those behind.
      more = true
      if tell(head, 'D') ~= 0 or not skip then
        return
      end
      deaf[process(head)] = true
      leave(head)
    else
      leave(head)
      local token, len = mint(F, now, fmt(now)), math.min(tonumber(lease), G)
      -- With the resource: a process that does not know the owner gives it back.
      local heard = tell(head, 'G', ' ' .. token .. ' ' .. fmt(now + len), ' ' .. string.match(L, '}l:(.*)$'))
      -- The caller itself reads the grant in the reply.
      if heard ~= 0 or not skip or head == me then
        become(wants, permits)
        if wants == 'w' then
          holder = { c = '1', owner = head, token = token, x = now + len, len = len, tag = tag }
        else
          shared = shared + 1
          share(head, token, now + len, '1', len, yield, tag)
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
  local until_, state = 0, 'n 1'
  if mode == 'w' then
    until_ = math.ceil(holder.x / 1000)
    local words = 'w %d %s %s %s %.0f %.0f %s'
    state = string.format(words, queue, holder.c, holder.owner, holder.token, holder.x, holder.len, holder.tag)
  elseif mode ~= 'n' then
    until_ = math.max(redis.call('PEXPIRETIME', M), math.ceil(latest / 1000))
    state = string.format('%s %d %.0f %.0f', mode, queue, first, now)
    if mode == 's' then
      state = string.format('%s %d', state, capacity)
    end
  end
  if queue == 1 then
    until_ = math.max(until_, redis.call('PEXPIRETIME', Q) + 2000)
  end
  if mode == 'r' or mode == 's' then
    -- With a queue the records of shared holders stay until a script has seen them end.
    raise_expiry(M, until_)
  end
  redis.call('SET', L, state, 'PXAT', fmt(until_))
end
