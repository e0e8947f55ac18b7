-- Second part of acquire.lua, after names.lua: a reader of a resource that is free, or read while nobody waits.
local tag = ARGV[6] or ''
if asks == 'r 0 ' then
  local x = now + ARGV[2] * 1000
  -- In ms, as PX would round it.
  local until_ = string.sub(ends, 1, -4)
  raw = redis.call('SET', L, 'r 0 ' .. ends .. ' ' .. written, 'NX', 'GET', 'PXAT', until_)
  local fast, old, first = not raw, 0, ends
  if raw then
    -- Beside other readers while nobody waits, unless one of them may have ended or the clock was set back.
    local earliest, at = string.match(raw, '^r 0 (%d+) (%d+)$')
    if earliest and tonumber(earliest) > now and tonumber(at) <= now and redis.call('HEXISTS', M, ARGV[1]) == 0 then
      fast, old = true, redis.call('PEXPIRETIME', M)
      first = tonumber(earliest) < x and earliest or ends
    end
  elseif redis.call('EXISTS', Q, M) > 0 then
    -- What a deleted state left behind: its queue comes first, and its records are nobody's.
    redis.call('DEL', L)
    fast = false
  end
  if fast then
    local record = ends .. ' ' .. token .. ' 0 ' .. ARGV[2] .. '000 ' .. string.sub(ARGV[5], -1) .. ' ' .. tag
    redis.call('HSET', M, ARGV[1], record)
    -- The records last as long as the state, which lasts as long as the latest of them.
    if old < tonumber(until_) then
      redis.call('PEXPIREAT', M, until_)
      old = until_
    end
    if raw then
      redis.call('SET', L, 'r 0 ' .. first .. ' ' .. written, 'PXAT', old)
    end
    return token
  end
end
local how, place, wait, cap, G, skip, chan, yield =
  string.match(ARGV[5], '^(%a%d*) (%d+) (%-?%d+) (%d+) (%d+) (%d) (%S+) (%d)$')
wait, cap, G, skip = tonumber(wait), tonumber(cap), G * 1000, skip == '1'
local seq = tonumber(place)
local me = ARGV[1]
