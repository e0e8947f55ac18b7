-- What must hold of all keys of all caches on this server, after every script and at every moment between two.
--
-- KEYS: those to look at, or none for all
-- ARGV: none
-- Reply: what is broken, or an empty text; server time, µs; how many values, how many leases that last; the transaction of
--   each intent
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local broken, values, loads, intents = {}, 0, 0, {}
-- Expiry is kept in whole ms, by a clock that the server reads now and then.
local COARSE = 20000

local function wrong(key, what)
  broken[#broken + 1] = key .. ': ' .. what
end

local function is_time(text)
  return text and string.match(text, '^%d+$') and tonumber(text) <= now + 3600000000
end

-- What one version of the program has there.
local function part(key, announced, fields, waiting)
  -- Of many keys the last is looked at some time after the first.
  local read = redis.call('TIME')
  local ends = read[1] * 1000000 + read[2] + redis.call('PTTL', key) * 1000 + COARSE
  if fields.v then
    values = values + 1
    if announced then wrong(key, 'a value while a write of it is announced') end
    if fields.kind ~= 'value' and fields.kind ~= 'null' then wrong(key, 'kind ' .. tostring(fields.kind)) end
    for _, name in ipairs({'ver', 'd'}) do
      if not string.match(fields[name] or 'none', '^%d*$') then wrong(key, name .. ' ' .. tostring(fields[name])) end
    end
    if not is_time(fields.at) or tonumber(fields.at) > now then wrong(key, 'stored at ' .. tostring(fields.at)) end
    if not is_time(fields.exp) then wrong(key, 'fresh until ' .. tostring(fields.exp))
    elseif tonumber(fields.exp) > ends then wrong(key, 'fresh for longer than it is kept') end
  elseif not fields.tok and not fields.hold then
    wrong(key, 'neither a value nor a load')
  end
  if fields.hold then
    if not is_time(fields.hold) then wrong(key, 'held until ' .. tostring(fields.hold))
    elseif not fields.v and tonumber(fields.hold) > ends then wrong(key, 'held for longer than it is kept') end
  end
  if fields.tok then
    if announced then wrong(key, 'leased while a write of it is announced') end
    if not is_time(fields.tokx) then wrong(key, 'leased until ' .. tostring(fields.tokx))
    elseif tonumber(fields.tokx) > ends then wrong(key, 'leased for longer than it is kept')
    elseif tonumber(fields.tokx) > now then loads = loads + 1 end
  elseif fields.tokx or waiting > 0 then
    wrong(key, waiting .. ' wait for no load')
  end
end

local function entry(key, announced)
  local parts, waiting = {}, {}
  local all = redis.call('HGETALL', key)
  for i = 1, #all, 2 do
    local name, shape, process = string.match(all[i], '^(%a+):(%x+):?(.*)$')
    if not name then
      wrong(key, 'field ' .. all[i])
    else
      parts[shape] = parts[shape] or {}
      if name == 'w' and process ~= '' then
        waiting[shape] = (waiting[shape] or 0) + 1
      else
        parts[shape][name] = all[i + 1]
      end
    end
  end
  if redis.call('PTTL', key) < 0 then wrong(key, 'no expiry') end
  for shape, fields in pairs(parts) do
    part(key, announced, fields, waiting[shape] or 0)
  end
end

local function announcements(key)
  if redis.call('PTTL', key) >= 0 then wrong(key, 'an announcement that ends by time') end
  for _, value in ipairs(redis.call('HVALS', key)) do
    local xid, started = string.match(value, '^(%d+) (%d+)$')
    if not xid or tonumber(started) > now then wrong(key, value) end
    intents[#intents + 1] = xid
  end
end

for _, key in ipairs(#KEYS > 0 and KEYS or redis.call('KEYS', '*:v1:{*}*')) do
  local before, letter, rest = string.match(key, '^(.-:v1:{%x+})(%w+):(.+)$')
  if redis.call('EXISTS', key) == 0 then
    letter = 'none'
  end
  if letter == 'e' then
    entry(key, redis.call('EXISTS', before .. 'i:' .. rest) == 1)
  elseif letter == 'i' then
    announcements(key)
  elseif letter == 's' then
    if not string.match(redis.call('GET', key), '^%d+$') then wrong(key, redis.call('GET', key)) end
  elseif letter == 'j' then
    local since = string.match(redis.call('GET', key), '^%S+ (%d+) [rtu]$')
    if not since or tonumber(since) > now then wrong(key, redis.call('GET', key)) end
  end
end

local reply = {table.concat(broken, '; '), string.format('%.0f', now), values, loads}
for _, xid in ipairs(intents) do reply[#reply + 1] = xid end
return reply
