-- Restarts leases at their full length, and confirms handed-over grants. Creates no lock.
-- KEYS: L of each resource. In a cluster, where a script must declare all of its keys, L Q M of each, and Z of their
--   bucket, see names.lua.
-- ARGV: for each resource the owner (28 characters) followed directly by `lease token`, with the lease in ms.
-- Reply: `now found`, with now in µs. found has one digit for each resource:
--   1: renewed, 3: renewed, and somebody waits, 2: held but may not renew, 0: not held by this owner with this token
-- The token tells two grants to one owner apart: a question that was held up may arrive after the first of them ended,
-- and others may have held the resource in between.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local declared = #KEYS == 3 * #ARGV + 1

local function name(i, letter, place)
  if declared then
    return KEYS[i * 3 - 3 + place]
  end
  return (string.gsub(KEYS[i], '}l:', '}' .. letter .. ':', 1))
end

-- The end of a lease that begins now, by its length in ms. Most leases have the same length, so this is a cache.
local ends = {}
local function ending(lease)
  local x = now + lease * 1000
  local found = { x = x, text = string.format('%.0f', x), at = math.ceil(x / 1000) }
  ends[lease] = found
  return found
end

-- When the state must expire: with the lease, and at least 2 s after the queue if somebody waits.
local function expiry(i, at, queued)
  if queued == '1' then
    at = math.max(at, redis.call('PEXPIRETIME', name(i, 'q', 2)) + 2000)
  end
  return at
end

-- A server out of memory refuses a script at its first write, if that write may need memory. PERSIST needs none, so
-- holders can renew on such a server. The next write gives the state its expiry back.
local wrote = false
local function write_anyway(state)
  if not wrote then
    redis.call('PERSIST', state)
    wrote = true
  end
end

-- A foreign value counts as "not held" for its lock and must not stop the renewal of the others. So nothing below may
-- fail, whatever text it reads. The only holder may be a writer or a reader; what follows the length of its lease is
-- kept.
local function renew_only(i, state, raw, owner, lease, token)
  local queued = string.sub(raw, 3, 3)
  local present, tag = string.match(raw, '^ (%d+) %d+ %d+ (.*)$', 35)
  if present ~= token then
    return 0
  end
  local e = ends[lease] or ending(lease)
  write_anyway(state)
  local head = string.sub(raw, 1, 2) .. queued .. ' 0 ' .. owner .. ' ' .. token .. ' '
  local text = head .. e.text .. ' ' .. lease .. '000 ' .. tag
  redis.call('SET', state, text, 'PXAT', string.format('%.0f', expiry(i, e.at, queued)))
  return queued == '1' and 3 or 1
end

local function renew_shared(i, state, raw, owner, lease, token)
  local head, queued, first, rest = string.match(raw, '^([rs] (%d) )(%d+)( %d+ ?%d*)$')
  local records = name(i, 'm', 3)
  local record = redis.pcall('HGET', records, owner)
  local present, yield, tag
  if head and type(record) == 'string' then
    present, yield, tag = string.match(record, '^%d+ (%d+) %d %d+ (%d) (.*)$')
  end
  if present ~= token then
    return 0
  elseif yield == '2' then
    return 2
  end
  local e = ends[lease] or ending(lease)
  write_anyway(state)
  redis.call('HSET', records, owner, e.text .. ' ' .. token .. ' 0 ' .. lease .. '000 ' .. yield .. ' ' .. tag)
  -- The records expire with the latest of the leases, and the state not before the records.
  local old, at = redis.call('PEXPIRETIME', records), expiry(i, e.at, queued)
  if old < at then
    redis.call('PEXPIREAT', records, string.format('%.0f', at))
  end
  at = string.format('%.0f', math.max(old, at))
  if e.x < tonumber(first) then
    -- This lease ends before all others, which happens only after the clock was set back.
    redis.call('SET', state, head .. e.text .. rest, 'PXAT', at)
  else
    redis.call('PEXPIREAT', state, at)
  end
  return queued == '1' and 3 or 1
end

local found = {}
for i = 1, #ARGV do
  local owner = string.sub(ARGV[i], 1, 28)
  local lease, token = string.match(ARGV[i], '^(%d+) (%d+)$', 29)
  local state = KEYS[declared and i * 3 - 2 or i]
  -- pcall: a key of another type counts as "not held".
  local raw = redis.pcall('GET', state)
  local result = 0
  if type(raw) == 'string' then
    if string.sub(raw, 7, 34) == owner then
      result = renew_only(i, state, raw, owner, lease, token)
    elseif string.find(raw, '^[rs]') then
      result = renew_shared(i, state, raw, owner, lease, token)
    end
  end
  found[i] = result
end
return string.format('%.0f %s', now, table.concat(found))
