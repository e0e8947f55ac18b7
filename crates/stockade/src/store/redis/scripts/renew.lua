-- Extends leases by their length from now, and confirms handed-over grants. Creates nothing.
-- KEYS: L F Q W M of each resource. ARGV: owner and lease ms of each.
-- Reply: for each `1 now queue` renewed, `2 now queue` held but not to be renewed, `0 now 0` not held by this owner.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

-- Sets the state of a resource whose holders have the lease until x.
local function keep(base, state, x, queued)
  local at = math.ceil(x / 1000)
  if queued == '1' then
    at = math.max(at, redis.call('PEXPIRETIME', KEYS[base + 3]) + 2000)
  end
  if string.sub(state, 1, 1) ~= 'w' then
    at = math.max(at, redis.call('PEXPIRETIME', KEYS[base + 5]))
    redis.call('PEXPIREAT', KEYS[base + 5], string.format('%.0f', at))
  end
  redis.call('SET', KEYS[base + 1], state, 'PXAT', string.format('%.0f', at))
end

-- A server out of memory refuses only the first write of a script, and only one that could need memory. This one needs
-- none, so that such a server takes no lock away; the state gets its expiry back with what is written next.
local function write_anyway(base)
  redis.call('PERSIST', KEYS[base + 1])
end

local replies = {}
for i = 1, #ARGV / 2 do
  local base, owner, lease = (i - 1) * 5, ARGV[i * 2 - 1], ARGV[i * 2] * 1000
  -- A key of another type ends this lock, and not the renewal of the others.
  local raw = redis.pcall('GET', KEYS[base + 1])
  raw = type(raw) == 'string' and raw
  local result, queued = 0, '0'
  if raw and string.sub(raw, 1, 1) == 'w' and string.sub(raw, 7, 34) == owner then
    local token, tag
    queued, token, tag = string.match(raw, '^w (%d) %d %S+ (%d+) %d+ %d+ (.*)$')
    write_anyway(base)
    keep(base, string.format('w %s 0 %s %s %.0f %.0f %s', queued, owner, token, now + lease, lease, tag), now + lease, queued)
    result = 1
  elseif raw and string.find(raw, '^[rs]') then
    local record = redis.pcall('HGET', KEYS[base + 5], owner)
    if type(record) == 'string' then
      queued = string.sub(raw, 3, 3)
      local token, yield, tag = string.match(record, '^%d+ (%d+) %d %d+ (%d) (.*)$')
      result = 2
      if yield ~= '2' then
        write_anyway(base)
        local text = string.format('%.0f %s 0 %.0f %s %s', now + lease, token, lease, yield, tag)
        redis.call('HSET', KEYS[base + 5], owner, text)
        -- Earlier than every lease before only on a clock that was set back.
        local head, first, rest = string.match(raw, '^(%a %d )(%d+)(.*)$')
        first = string.format('%.0f', math.min(tonumber(first), now + lease))
        keep(base, head .. first .. rest, now + lease, queued)
        result = 1
      end
    end
  end
  replies[i] = string.format('%d %.0f %s', result, now, queued)
end
return replies
