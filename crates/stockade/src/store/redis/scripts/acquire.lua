-- Takes the resource, or a place in its queue. Calling it again with the same owner and place changes nothing but the
-- time the owner waits: it is also the poll of a waiter and its question after a reconnect.
-- KEYS: L F, and Q W M in a cluster, see names.lua.
-- ARGV: owner, lease ms, stamp and age as for stamp.lua, pack = `mode place wait cap grant skip channel yield`, and the
--   tag if there is one. mode: w, r, or s and the capacity of the semaphore; place: from an earlier call, or 0; wait:
--   ms to wait (0: don't queue, -1: without limit); cap: longest queue; grant: ms of the lease of a handed-over grant;
--   skip: whether a waiter without a subscriber is skipped; channel: prefix of the inbox channels; yield: whether the
--   holder asks to be told of waiting writers.
-- Reply: `token` when the resource was free, or shared by readers while nobody waited; else one of
--   `GRANTED token x now place wanted`, `QUEUED seq remaining now rank place`, `BUSY remaining length now yields`,
--   `FULL remaining length now`, `STALE now`, `CAPACITY present now` for a semaphore that is in use with another
--   capacity, times in µs. place: 1 when the caller's place was gone, else 0; wanted: 1 when somebody waits; yields: 1
--   when all holders asked to be told of waiting writers, and were told.

-- The common case, a writer of a free resource, comes first, and avoids what is dear here: arguments, closures, and
-- numbers that become text. Parts of a time stay below 2^31 until 2038, so that %d writes them in full on every
-- machine.
local raw, written, token, ends
-- A caller with a place leaves the queue in the last part: here its entry would stay, and be granted the next turn.
local asks = string.sub(ARGV[5], 1, 4)
if asks == 'w 0 ' or asks == 'r 0 ' then
  written = #time[2] == 6 and time[1] .. time[2] or string.format('%d%06d', seconds, micros)
  -- What mint.lua does, written out: its closure would make the common case 1 % dearer.
  token = written
  local last = redis.call('SET', KEYS[2], token, 'GET')
  if last then
    local floor = tonumber(last)
    if not floor then
      redis.call('SET', KEYS[2], last)
      return redis.error_reply('FOREIGN the key of the token floor holds what is no number')
    elseif floor >= now then
      if floor + 1 >= 9007199254740992 then
        redis.call('SET', KEYS[2], last)
        return redis.error_reply('ERR the fencing tokens of this bucket are used up')
      end
      token = string.format('%.0f', floor + 1)
      redis.call('SET', KEYS[2], token)
    end
  end
  local sum = micros + ARGV[2] * 1000
  local rest = sum % 1000000
  ends = string.format('%d%06d', seconds + (sum - rest) / 1000000, rest)
  if asks == 'w 0 ' then
    local state = 'w 0 0 ' .. ARGV[1] .. ' ' .. token .. ' ' .. ends .. ' ' .. ARGV[2] .. '000 ' .. (ARGV[6] or '')
    raw = redis.call('SET', KEYS[1], state, 'NX', 'GET', 'PX', ARGV[2])
    if not raw then
      return token
    end
  end
else
  raw = redis.call('GET', KEYS[1])
end
