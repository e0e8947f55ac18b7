-- Second part of acquire.lua, after names.lua: a reader of a resource that is free, or that others read while nobody
-- waits.
local tag = ARGV[6] or ''
if asks == 'r 0 ' then
  local x = now + ARGV[2] * 1000
  -- In ms, rounded as PX would round it.
  local until_ = string.sub(ends, 1, -4)
  raw = redis.call('SET', L, 'r 0 ' .. ends .. ' ' .. written, 'NX', 'GET', 'PXAT', until_)
  local fast, old, first = not raw, 0, ends
  if raw then
    -- Join the other readers if nobody waits, no reader's lease can have ended, and the clock was not set back.
    local earliest, at = string.match(raw, '^r 0 (%d+) (%d+)$')
    if earliest and tonumber(earliest) > now and tonumber(at) <= now and redis.call('HEXISTS', M, ARGV[1]) == 0 then
      fast, old = true, redis.call('PEXPIRETIME', M)
      first = tonumber(earliest) < x and earliest or ends
    end
  elseif redis.call('EXISTS', Q, M) > 0 then
    -- Left behind by a state that was deleted. The last part serves the queue first, and drops the records.
    redis.call('DEL', L)
    fast = false
  end
  if fast then
    local record = ends .. ' ' .. token .. ' 0 ' .. ARGV[2] .. '000 ' .. string.sub(ARGV[5], -1) .. ' ' .. tag
    redis.call('HSET', M, ARGV[1], record)
    -- State and records expire together, when the latest of the leases ends.
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
