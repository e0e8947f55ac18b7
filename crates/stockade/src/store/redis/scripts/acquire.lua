-- Takes the resource, or a place in its queue. A waiter calls the script again, with its owner and place, to poll and
-- after a reconnect. Such a call renews the waiter's record, and restores its place if the queue lost it.
-- KEYS: L F, and Q W M in a cluster, see names.lua.
-- ARGV: owner, lease in ms, stamp and age as for stamp.lua, pack, and the tag if there is one.
--   pack = `mode place wait cap grant skip channel yield`:
--   mode: w, r, or s followed by the capacity of the semaphore
--   place: the place from an earlier call, or 0
--   wait: ms to wait (0: don't queue, -1: no limit)
--   cap: the most waiters
--   grant: the lease of a handed-over grant, in ms
--   skip: 1 if waiters without a subscriber are skipped
--   channel: the prefix of the inbox channels
--   yield: 1 if the holder asks to be told of waiting writers
-- Reply, with times in µs: `token` if the resource was free, or shared by readers while nobody waited. Else one of
--   `GRANTED token x now place wanted`, `QUEUED seq remaining now rank place`, `BUSY remaining length now yields`,
--   `FULL remaining length now`, `STALE now`, or `CAPACITY present now` if the semaphore is in use with another
--   capacity.
--   place: 1 if the caller's place was gone, else 0
--   wanted: 1 if somebody waits
--   yields: 1 if all holders asked to be told of waiting writers, and were told

-- The common case, a writer of a free resource, comes first. It avoids what is expensive here: parsing arguments,
-- making closures, and turning numbers into text. Seconds and micros stay below 2^31 until 2038, so %d writes them in
-- full on every machine.
local raw, written, token, ends
-- Only for callers without a place. A caller with a place must also leave the queue, which the last part does;
-- otherwise its entry would stay and get the next grant, too.
local asks = string.sub(ARGV[5], 1, 4)
if asks == 'w 0 ' or asks == 'r 0 ' then
  written = #time[2] == 6 and time[1] .. time[2] or string.format('%d%06d', seconds, micros)
  -- The body of mint.lua, repeated here because its closure would make the common case 1 % slower.
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
