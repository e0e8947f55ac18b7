-- Checks the invariants of all keys of all caches on this server. They hold after every script.
--
-- KEYS: the keys to look at, or none for all
-- ARGV: none
-- Reply: the broken invariant, or an empty text; server time, µs; number of values; number of current leases; the
--   transaction of each intent
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local broken, values, loads, intents = {}, 0, 0, {}
-- The server keeps expiry in whole ms, by a clock that it reads only now and then.
local COARSE = 20000

local function wrong(key, what)
  broken[#broken + 1] = key .. ': ' .. what
end

local function is_time(text)
  return text and string.match(text, '^%d+$') and tonumber(text) <= now + 3600000000
end

-- The table of tags of each cache, by the prefix of its keys and its name.
local tables = {}

local function tags(key, cache)
  local known, stamps, epochs = {}, {}, 0
  local all = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
  for i = 1, #all, 2 do
    local kind, rest = string.match(all[i], '^(%l)(.*)$')
    local score = tonumber(all[i + 1])
    if kind == 't' and #rest > 1 then
      stamps[#stamps + 1] = score
    elseif kind == 'e' and #rest > 1 and score < 0 then
      known.epoch, epochs = 0 - score, epochs + 1
    elseif kind and rest == '' and score <= 0 then
      known[kind] = 0 - score
    else
      wrong(key, all[i] .. ' ' .. all[i + 1])
    end
  end
  if epochs ~= 1 or not (known.n and known.f and known.h) then
    wrong(key, epochs .. ' epochs, newest, floor and longest are not all there')
    return
  end
  if known.f > known.n then wrong(key, 'the floor is above the newest stamp') end
  for _, stamp in ipairs(stamps) do
    if stamp > known.n or stamp <= known.f then wrong(key, 'a stamp that is not between floor and newest') end
  end
  tables[cache] = known
end

-- Checks the stamp of a value or a load. Returns true if the stamp is of the present table of tags.
local function noted(key, stamp, known, name)
  local epoch, newest = string.match(stamp or '', '^(%d+) (%d+)$')
  if not epoch then
    wrong(key, name .. ' ' .. tostring(stamp))
  elseif known and tonumber(epoch) == known.epoch then
    if tonumber(newest) > known.n then wrong(key, name .. ' is newer than any invalidation') end
    return true
  end
end

-- Checks a filter of existing ids: its state, and the bits of both epochs.
local function filter(key, before, name)
  local state = {}
  local all = redis.call('HGETALL', key)
  for i = 1, #all, 2 do state[all[i]] = all[i + 1] end
  local size, hashes = string.match(state.size or '', '^(%d+) (%d+)$')
  if not state.seed or not size then
    wrong(key, 'no seed or size')
    return
  end
  for _, field in ipairs({'builder', 'until', 'bkeys', 'brun'}) do
    if not state.building ~= not state[field] then wrong(key, 'building ' .. tostring(state.building) .. ' without ' .. field) end
  end
  if state.building and tonumber(state.building) ~= tonumber(state.epoch or 0) + 1 then
    wrong(key, 'building ' .. state.building .. ' after ' .. tostring(state.epoch))
  end
  -- A filter that is not complete, or whose bits were evicted, may have any bits.
  local bits = before .. 'b' .. tostring(tonumber(state.epoch or 0) % 2) .. ':' .. name
  if state.run and redis.call('STRLEN', bits) == math.ceil(size / 8) then
    local set, keys = redis.call('BITCOUNT', bits), tonumber(state.keys)
    if not keys or set < keys or set > keys * hashes then
      wrong(key, set .. ' bits of ' .. tostring(state.keys) .. ' keys')
    end
  end
end

-- Checks the fields of one version of the program.
local function part(key, announced, fields, waiting, known, ends)
  if fields.v then
    values = values + 1
    if announced then wrong(key, 'a value while a write of it is announced') end
    local exp, at, epoch, stamp, kind, version, took, tags =
      string.match(fields.v, '^(%d+) (%d+) (%d+) (%d+ %d+) (%l+) (%S+) (%d+)\n(.-)\n\n')
    if kind ~= 'value' and kind ~= 'null' then wrong(key, 'words ' .. string.match(fields.v, '^[^\n]*')) return end
    if version ~= '-' and not string.match(version, '^%d+$') then wrong(key, 'version ' .. version) end
    if not is_time(at) or tonumber(at) > now then wrong(key, 'stored at ' .. at) end
    if not is_time(exp) then wrong(key, 'fresh until ' .. exp)
    elseif tonumber(exp) > ends then wrong(key, 'fresh for longer than it is kept') end
    if fields.exp ~= exp then wrong(key, 'fresh until ' .. exp .. ', and ' .. tostring(fields.exp) .. ' for other versions') end
    if tags == '' then
      if stamp ~= '0 0' then wrong(key, 'a stamp without a tag') end
    elseif noted(key, stamp, known, 'the stamp') and exp - at > known.h then
      wrong(key, 'fresh for longer than stamps are kept')
    end
  elseif fields.exp then
    wrong(key, 'fresh until ' .. fields.exp .. ' without a value')
  elseif not fields.tok and not fields.hold and not fields.free then
    wrong(key, 'neither a value nor a load')
  end
  if fields.hold then
    if not is_time(fields.hold) then wrong(key, 'held until ' .. tostring(fields.hold))
    elseif not fields.v and tonumber(fields.hold) > ends then wrong(key, 'held for longer than it is kept') end
  end
  if fields.free and not is_time(fields.free) then wrong(key, 'without a lease until ' .. fields.free) end
  if not fields.tok ~= not fields.tokc then wrong(key, 'tok without the epoch of tokc') end
  if fields.tokc and not string.match(fields.tokc, '^%d+$') then wrong(key, 'tokc ' .. fields.tokc) end
  if fields.fails and not (fields.hold and string.match(fields.fails, '^%d+$')) then
    wrong(key, 'failures ' .. fields.fails .. ' that hold nobody off')
  end
  if fields.tok then
    if announced then wrong(key, 'leased while a write of it is announced') end
    if not is_time(fields.tokx) then wrong(key, 'leased until ' .. tostring(fields.tokx))
    elseif tonumber(fields.tokx) > ends then wrong(key, 'leased for longer than it is kept')
    elseif tonumber(fields.tokx) > now then loads = loads + 1 end
    noted(key, fields.tokt, known, 'tokt')
  elseif fields.tokx or fields.tokt or waiting > 0 then
    wrong(key, waiting .. ' wait for no load')
  end
end

local function entry(key, announced, known)
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
  local kept = redis.call('PTTL', key)
  if kept < 0 then wrong(key, 'no expiry') end
  -- With many keys, the last key is looked at some time after the first.
  local read = redis.call('TIME')
  local ends = read[1] * 1000000 + read[2] + kept * 1000 + COARSE
  for shape, fields in pairs(parts) do
    part(key, announced, fields, waiting[shape] or 0, known, ends)
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

local found, announced = {}, {}
for _, key in ipairs(#KEYS > 0 and KEYS or redis.call('KEYS', '*:v1:{*}*')) do
  local namespace, tag, letter, name = string.match(key, '^(.-:v1:)({%x+})(%w+):(.+)$')
  if namespace and (#KEYS == 0 or redis.call('EXISTS', key) == 1) then
    found[#found + 1] = {key, namespace, tag, letter, name}
    if letter == 't' then tags(key, namespace .. name) end
    if letter == 'i' then announced[namespace .. name] = true end
  end
end
for _, parts in ipairs(found) do
  local key, namespace, tag, letter, rest = unpack(parts)
  local name = string.match(rest, '^[^:]+')
  if letter == 'e' then
    entry(key, announced[namespace .. rest], tables[namespace .. name])
  elseif letter == 'i' then
    announcements(key)
  elseif letter == 's' or letter == 'c' then
    if not string.match(redis.call('GET', key), '^%d+$') then wrong(key, redis.call('GET', key)) end
  elseif letter == 'j' then
    local since = string.match(redis.call('GET', key), '^%S+ (%d+) [rtu]$')
    if not since or tonumber(since) > now then wrong(key, redis.call('GET', key)) end
  elseif letter == 'b' then
    filter(key, namespace .. tag, rest)
  end
end

local reply = {table.concat(broken, '; '), string.format('%.0f', now), values, loads}
for _, xid in ipairs(intents) do reply[#reply + 1] = xid end
return reply
