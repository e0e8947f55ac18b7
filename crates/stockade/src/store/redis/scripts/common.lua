-- Helpers of the lock scripts, after names.lua and mint.lua. A script sets these variables before the helpers:
--   now   the server's time, µs
--   me    the caller's owner, or an empty string
--   G     the lease of a handed-over grant, µs
--   skip  true if waiters without a subscriber are skipped
--   chan  the prefix of the inbox channels
--
-- The keys of a resource:
--
-- key  type         what it holds
-- L    string       `w queue unconfirmed owner token x len tag`: one exclusive holder
--                   `r 0 0 owner token x len yield tag`: one reader, while nobody waits
--                   `r queue first at`: readers, see M
--                   `s queue first at capacity`: holders of the permits of a semaphore, see M
--                   `n 1`: nobody holds the resource, and somebody waits
-- F    string       the token floor of the bucket: its highest token so far. Never expires
-- Q    sorted set   owner by place
-- W    hash         owner -> `mode deadline lease yield tag`: who waits
-- M    hash         owner -> `x token unconfirmed len yield tag`: readers or holders of permits
-- L expires after Q, W and M. Without L there is neither holder nor queue, unless somebody deleted L.
--
-- field         value
-- queue         1 when somebody waits, else 0
-- unconfirmed   1 for a handed-over grant until its first renewal, else 0
-- owner         28 characters: the process in 16, a dot, a number in 11. In an L with one holder it begins at byte 7
-- token         the fencing token
-- x             the end of the lease, µs
-- len           the length of the lease that ends at x, µs
-- first         no lease of the shared holders ends before this time, µs
-- at            when L was written, µs. If the clock shows less, it was set back
-- capacity      how many permits the semaphore has
-- mode          w, r, or s and the capacity
-- deadline      the end of the wait, µs
-- lease         the lease that is asked for, µs
-- yield         1: asked to be told of waiting writers. 2: may not renew. Else 0
-- tag           a text for people, to the end of the record
--
-- Messages to an inbox are `letter owner ... now`; the table of letters is with `Message` in messages/.
--
-- Numbers are written with %.0f, since Lua's own conversion rounds from 15 digits on.
local mode, holder, only, bad, more = 'n', nil, nil, nil, false
-- For shared holders: the capacity, the earliest end of a lease, when L was written, the latest end that is written.
local capacity, first, at, latest = 0, math.huge, 0, 0

local function fmt(number)
  return string.format('%.0f', number)
end

local function process(owner)
  return string.sub(owner, 1, 16)
end

-- In a cluster, inboxes are sharded channels in the slot of the keys, and their prefix has a hash tag. The names of
-- these commands stand in a table, so that the check of permissions does not ask for them outside of a cluster.
local sharded = string.find(chan, '{', 1, true) and { 'SPUBLISH', 'PUBSUB', 'SHARDNUMSUB' }

-- Returns how many subscribers got the message, or -1 if that can't be known. Uses pcall, since a failed publish must
-- not fail a script that has already written.
local function tell(owner, letter, rest, resource)
  local message = letter .. ' ' .. owner .. (rest or '') .. ' ' .. fmt(now) .. (resource or '')
  local inbox = chan .. process(owner)
  local heard = sharded and redis.pcall(sharded[1], inbox, message) or redis.pcall('PUBLISH', inbox, message)
  return type(heard) == 'number' and heard or -1
end

-- Fails if L holds no state of ours: another program wrote it, so it is neither free nor to be overwritten.
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
    local owner, token, x, len, yield, tag = string.match(state, '^r 0 0 (%S+) (%d+) (%d+) (%d+) (%d) (.*)$')
    if owner then
      only = { owner, token, tonumber(x), '0', tonumber(len), yield, tag }
      at = x - len
      return
    end
    local earliest, written, permits = string.match(state, '^[rs] %d (%d+) (%d+) ?(%d*)$')
    known(earliest)
    first, at, capacity = tonumber(earliest), tonumber(written), tonumber(permits) or 0
    if redis.call('HLEN', M) == 0 then
      -- The records were deleted: there is no holder to wait for.
      mode, first = 'n', math.huge
    end
  end
end

-- Sets the mode in which the resource is held. Records in M of another mode were left by a deleted state, and go.
local function become(wants, permits)
  if wants ~= 'w' and mode ~= wants then
    redis.call('DEL', M)
  end
  mode, capacity = wants, permits
end

-- Writes the record of a shared holder. The caller sets the mode.
local function share(owner, token, x, c, len, yield, tag)
  redis.call('HSET', M, owner, string.format('%.0f %s %s %.0f %s %s', x, token, c, len, yield, tag))
  first, latest = math.min(first, x), math.max(latest, x)
end

-- Moves the record of the only reader from L to M, so that it is kept as those of several. Scripts that change the
-- resource do so after they have loaded it. Records that a deleted state left behind go. The server may delete the moved
-- record at once, since it expires keys by the millisecond.
local function spread()
  if only then
    if redis.call('HLEN', M) > 0 then
      redis.call('DEL', M)
    end
    share(unpack(only))
    local expiry = fmt(math.floor(latest / 1000))
    redis.call('PEXPIREAT', M, expiry)
    redis.call('SET', L, 'r 0 ' .. fmt(first) .. ' ' .. fmt(at), 'PXAT', expiry)
    only = nil
  end
end

-- Whether one more holder may join the present ones.
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

-- Removes waiters of one process from the queue, and tells the process.
local function remove(owners)
  if #owners > 0 then
    redis.call('ZREM', Q, unpack(owners))
    redis.call('HDEL', W, unpack(owners))
    tell(owners[1], 'D', #owners > 1 and ' ' .. table.concat(owners, ' ', 2))
  end
end

-- Tells the owner that its lease expired. If the owner never confirmed its handed-over grant, its process is marked as
-- deaf.
local function ended(owner, c)
  tell(owner, 'X')
  if c == '1' and process(owner) ~= process(me) then
    bad = bad or {}
    bad[process(owner)] = {}
  end
end

-- Ends the leases that expired. An end that is further away than its lease shows that the clock was set back: that
-- lease then ends one lease from now.
local function expire()
  if mode == 'w' then
    holder.x = holder.x > now + holder.len + 1000000 and now + holder.len or holder.x
    if holder.x <= now then
      ended(holder.owner, holder.c)
      mode, holder = 'n', nil
    end
  elseif mode ~= 'n' and (first <= now or now < at) then
    -- There may be many shared holders, so they are read only if one of their leases may have ended.
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
    -- Each waiter of a deaf process would cost a lease, so all of them leave the queue. Living ones come back.
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

-- Removes waiters at the head whose process has no subscription. Otherwise a dead writer at the head would keep new
-- readers from joining the present ones.
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

-- Grants the resource to the head of the queue, and to the waiters right behind that can share it: readers, or waiters
-- for permits while permits are free.
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
      -- A process that died may have thousands of waiters: they are skipped without a message to each.
      leave(head)
    elseif shared >= 256 and head ~= me then
      -- Let the server answer other commands in between. The next waiter is told to ask, which serves it and those
      -- behind it.
      more = true
      if tell(head, 'D') ~= 0 or not skip then
        return
      end
      deaf[process(head)] = true
      leave(head)
    else
      -- First, because it may fail: the waiter then keeps its place.
      local token, len = mint(F, now, fmt(now)), math.min(tonumber(lease), G)
      leave(head)
      -- The message names the resource, so that a process that no longer knows the owner can release it.
      local heard = tell(head, 'G', ' ' .. token .. ' ' .. fmt(now + len), ' ' .. string.match(L, '}l:(.*)$'))
      -- The caller reads its own grant in the reply, so it need not have heard the message.
      if heard ~= 0 or not skip or head == me then
        become(wants, permits)
        if wants == 'w' then
          holder = { c = '1', owner = head, token = token, x = now + len, len = len, tag = tag }
          return
        end
        shared = shared + 1
        share(head, token, now + len, '1', len, yield, tag)
      else
        deaf[process(head)] = true
      end
    end
  end
end

local function raise_expiry(key, at)
  if redis.call('PEXPIRETIME', key) < at then
    redis.call('PEXPIREAT', key, fmt(at))
  end
end

local function keep_queue(deadline)
  local at = math.ceil(deadline / 1000) + 10000
  raise_expiry(Q, at)
  raise_expiry(W, at)
end

local function save()
  -- -2 if nobody waits.
  local waits = redis.call('PEXPIRETIME', Q)
  local queue = waits == -2 and 0 or 1
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
    until_ = math.max(until_, waits + 2000)
  end
  if mode == 'r' or mode == 's' then
    -- While somebody waits, the records stay until a script sees that their leases ended, and can tell the holders.
    raise_expiry(M, until_)
  end
  redis.call('SET', L, state, 'PXAT', fmt(until_))
end
