-- Takes the resource, or a place in its queue. Calling it again with the same owner and place changes nothing but the
-- time the owner waits: it is also the poll of a waiter and its question after a reconnect.
-- KEYS: L F Q W M, see common.lua.
-- ARGV: owner, mode (w, r, or s and the capacity of the semaphore), lease ms, stamp µs (server time when sent, as the client estimates; 0: don't check; one
--   more than 100 ms ahead is refused, since it would be accepted for that much longer), the age in ms from which the
--   command is refused, tag, place from an earlier call or 0, pack = `wait cap grant skip channel yield`:
--   ms to wait (0: don't queue, -1: without limit), longest queue, ms of the lease of a handed-over grant, whether a
--   waiter without a subscriber is skipped, prefix of the inbox channels, whether the holder asks to be told of waiting
--   writers.
-- Reply: `token` when the resource was free; else one of `GRANTED token x now place`, `QUEUED seq remaining now rank
--   place`, `BUSY remaining length now`, `FULL remaining length now`, `STALE now`, `CAPACITY present now` for a semaphore
--   that is in use with another capacity, times in µs. place: 1 when the caller's place was gone, else 0.

-- The common case comes first: every closure made before its return would be paid for by each call.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local stamp = tonumber(ARGV[4])
if stamp ~= 0 and (now - stamp > ARGV[5] * 1000 or stamp - now > 100000) then
  return string.format('STALE %.0f', now)
end
local raw
-- A caller with a place leaves the queue in the second part: here its entry would stay, and be granted the next turn.
if ARGV[2] == 'w' and ARGV[7] == '0' then
  local token = string.format('%.0f', now)
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
  local state = string.format('w 0 0 %s %s %.0f %s000 %s', ARGV[1], token, now + ARGV[3] * 1000, ARGV[3], ARGV[6])
  raw = redis.call('SET', KEYS[1], state, 'NX', 'GET', 'PX', ARGV[3])
  if not raw then
    return token
  end
else
  raw = redis.call('GET', KEYS[1])
end
local wait, cap, G, skip, chan, yield = string.match(ARGV[8], '^(%-?%d+) (%d+) (%d+) (%d) (%S+) (%d)$')
wait, cap, G, skip = tonumber(wait), tonumber(cap), G * 1000, skip == '1'
local seq = tonumber(ARGV[7])
local me = ARGV[1]
