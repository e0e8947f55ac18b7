-- Takes the resource, or a place in its queue. Calling it again with the same owner and place changes nothing but the
-- time the owner waits: it is also the poll of a waiter and its question after a reconnect.
-- KEYS: L F Q W M, see common.lua.
-- ARGV: owner, mode (w, r, or s and the capacity of the semaphore), lease ms, stamp µs (server time when sent, as the client estimates; 0: don't check; one
--   more than 100 ms ahead is refused, since it would be accepted for that much longer), the age in ms from which the
--   command is refused, tag, place from an earlier call or 0, pack = `wait cap grant skip channel yield`:
--   ms to wait (0: don't queue, -1: without limit), longest queue, ms of the lease of a handed-over grant, whether a
--   waiter without a subscriber is skipped, prefix of the inbox channels, whether the holder asks to be told of waiting
--   writers.
-- Reply: `token` when the resource was free, or shared by readers while nobody waited; else one of
--   `GRANTED token x now place wanted`, `QUEUED seq remaining now rank place`, `BUSY remaining length now yields`,
--   `FULL remaining length now`, `STALE now`, `CAPACITY present now` for a semaphore that is in use with another
--   capacity, times in µs. place: 1 when the caller's place was gone, else 0; wanted: 1 when somebody waits; yields: 1
--   when all holders asked to be told of waiting writers, and were told.

-- The common case comes first: every closure made before its return would be paid for by each call.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local stamp = tonumber(ARGV[4])
if stamp ~= 0 and (now - stamp > ARGV[5] * 1000 or stamp - now > 100000) then
  return string.format('STALE %.0f', now)
end
local raw
local shared = ARGV[2] == 'r'
-- A caller with a place leaves the queue in the second part: here its entry would stay, and be granted the next turn.
if (shared or ARGV[2] == 'w') and ARGV[7] == '0' then
  local written = time[1] .. string.sub('00000' .. time[2], -6)
  local token = written
  local last = redis.call('SET', KEYS[2], token, 'GET')
  if last and not tonumber(last) then
    redis.call('SET', KEYS[2], last)
    return redis.error_reply('FOREIGN the key of the token floor holds what is no number')
  end
  if last and tonumber(last) >= now then
    if tonumber(last) + 1 >= 9007199254740992 then
      redis.call('SET', KEYS[2], last)
      return redis.error_reply('ERR the fencing tokens of this bucket are used up')
    end
    token = string.format('%.0f', last + 1)
    redis.call('SET', KEYS[2], token)
  end
  local x = now + ARGV[3] * 1000
  local ends = string.format('%.0f', x)
  if not shared then
    local state = 'w 0 0 ' .. ARGV[1] .. ' ' .. token .. ' ' .. ends .. ' ' .. ARGV[3] .. '000 ' .. ARGV[6]
    raw = redis.call('SET', KEYS[1], state, 'NX', 'GET', 'PX', ARGV[3])
    if not raw then
      return token
    end
  else
    -- In ms, as PX would round it.
    local until_ = string.sub(ends, 1, -4)
    raw = redis.call('SET', KEYS[1], 'r 0 ' .. ends .. ' ' .. written, 'NX', 'GET', 'PXAT', until_)
    local fast, old, first = not raw, 0, ends
    if raw then
      -- Beside other readers while nobody waits, unless one of them may have ended or the clock was set back.
      local earliest, at = string.match(raw, '^r 0 (%d+) (%d+)$')
      if earliest and tonumber(earliest) > now and tonumber(at) <= now and redis.call('HEXISTS', KEYS[5], ARGV[1]) == 0 then
        fast, old = true, redis.call('PEXPIRETIME', KEYS[5])
        first = tonumber(earliest) < x and earliest or ends
      end
    elseif redis.call('EXISTS', KEYS[3], KEYS[5]) > 0 then
      -- What a deleted state left behind: its queue comes first, and its records are nobody's.
      redis.call('DEL', KEYS[1])
      fast = false
    end
    if fast then
      local record = ends .. ' ' .. token .. ' 0 ' .. ARGV[3] .. '000 ' .. string.sub(ARGV[8], -1) .. ' ' .. ARGV[6]
      redis.call('HSET', KEYS[5], ARGV[1], record)
      -- The records last as long as the state, which lasts as long as the latest of them.
      if old < tonumber(until_) then
        redis.call('PEXPIREAT', KEYS[5], until_)
        old = until_
      end
      if raw then
        redis.call('SET', KEYS[1], 'r 0 ' .. first .. ' ' .. written, 'PXAT', old)
      end
      return token
    end
  end
else
  raw = redis.call('GET', KEYS[1])
end
local wait, cap, G, skip, chan, yield = string.match(ARGV[8], '^(%-?%d+) (%d+) (%d+) (%d) (%S+) (%d)$')
wait, cap, G, skip = tonumber(wait), tonumber(cap), G * 1000, skip == '1'
local seq = tonumber(ARGV[7])
local me = ARGV[1]
