-- Takes resources, or places in their queues. One call asks for one resource. Several calls may come together, and are
-- answered as if they had come one after the other. A waiter calls the script again, with its owner and place, to poll
-- and after a reconnect. Such a call renews the waiter's record, and restores its place if the queue lost it.
-- KEYS: L F of each call; in a cluster L F Q W M Z of the only call, see names.lua.
-- ARGV: stamp and age as for stamp.lua; then of each call: owner, lease in ms, pack, and the tag if there are tags.
--   pack = `mode place wait cap grant skip channel yield`:
--   mode: w, r, or s followed by the capacity of the semaphore
--   place: the place from an earlier call, or 0
--   wait: ms to wait (0: don't queue, -1: no limit)
--   cap: the most waiters
--   grant: the lease of a handed-over grant, in ms
--   skip: 1 if waiters without a subscriber are skipped
--   channel: the prefix of the inbox channels
--   yield: 1 if the holder asks to be told of waiting writers
-- Reply to a call, with times in µs: `token` if the resource was free, or shared by readers while nobody waited. Else
--   one of `GRANTED token x now place wanted`, `QUEUED seq remaining now rank place`, `BUSY remaining length now yields`,
--   `FULL remaining length now`, `STALE now`, or `CAPACITY present now` if the semaphore is in use with another
--   capacity. To several calls: an array of the replies, or one STALE.
--   place: 1 if the caller's place was gone, else 0
--   wanted: 1 if somebody waits
--   yields: 1 if all holders asked to be told of waiting writers, and were told

-- The common cases come first: a writer of a free resource, and a reader of a resource that is free or that others read
-- while nobody waits. They avoid what is expensive here: parsing arguments, making closures, and turning numbers into
-- text. Seconds and micros stay below 2^31 until 2038, so %d writes them in full on every machine.
local all_keys = #KEYS == 6 and string.find(KEYS[3], '^[^}]*}q:')
local calls = all_keys and 1 or #KEYS / 2
local own = (#ARGV - 2) / calls
local written = #time[2] == 6 and time[1] .. time[2] or string.format('%d%06d', seconds, micros)
-- `left` are the calls that are not answered here, and the names of their resources: what is asked for the same
-- resource later comes behind them. `raw` is what the last of the resources held, if it was asked for here.
local replies, left = {}, nil
local lease, ends, raw
for call = 1, calls do
  local at = 2 + (call - 1) * own
  local L, F, ms, asks = KEYS[2 * call - 1], KEYS[2 * call], ARGV[at + 2], string.sub(ARGV[at + 3], 1, 4)
  -- Only for callers without a place. A caller with a place must also leave the queue, which the last part does;
  -- otherwise its entry would stay and get the next grant, too.
  if (asks == 'w 0 ' or asks == 'r 0 ') and not (left and left[L]) then
    -- The body of mint.lua, repeated here because its closure would make the common case 1 % slower. What fails here
    -- fails for this call only, so nothing is raised.
    local token = written
    local last = redis.pcall('SET', F, token, 'GET')
    if last then
      local floor = tonumber(last)
      if type(last) == 'table' then
        replies[call] = last
      elseif not floor then
        redis.call('SET', F, last)
        replies[call] = redis.error_reply('FOREIGN the key of the token floor holds what is no number')
      elseif floor >= now then
        if floor + 1 >= 9007199254740992 then
          redis.call('SET', F, last)
          replies[call] = redis.error_reply('ERR the fencing tokens of this bucket are used up')
        else
          token = string.format('%.0f', floor + 1)
          redis.call('SET', F, token)
        end
      end
    end
    if ms ~= lease then
      local sum = micros + ms * 1000
      local rest = sum % 1000000
      lease, ends = ms, string.format('%d%06d', seconds + (sum - rest) / 1000000, rest)
    end
    local me, reads, tag = ARGV[at + 1], asks == 'r 0 ', own == 4 and ARGV[at + 4] or ''
    if reads then
      tag = string.sub(ARGV[at + 3], -1) .. ' ' .. tag
    end
    if not replies[call] then
      local kind = reads and 'r 0 0 ' or 'w 0 0 '
      local state = kind .. me .. ' ' .. token .. ' ' .. ends .. ' ' .. ms .. '000 ' .. tag
      raw = redis.pcall('SET', L, state, 'NX', 'GET', 'PX', ms)
      if type(raw) == 'table' then
        replies[call] = raw
      elseif not raw and not reads then
        replies[call] = token
      end
    end
    if reads and not replies[call] then
      local Q, M = KEYS[3], KEYS[5]
      if not all_keys then
        local head, resource = string.match(L, '^([^}]*})l(:.*)$')
        Q, M = head .. 'q' .. resource, head .. 'm' .. resource
      end
      -- No lease of the other readers ends before this time. `nil`: there are none, or they can't be joined here.
      local earliest, set
      if raw then
        earliest, set = string.match(raw, '^r 0 (%d+) (%d+)$')
        if not earliest then
          -- The only reader so far: its record moves from L to M. `spread` in common.lua does the same, but going there
          -- made two readers of a resource a tenth slower.
          local other, theirs, x, len, rest = string.match(raw, '^r 0 0 (%S+) (%d+) (%d+) (%d+) (.*)$')
          if other and redis.pcall('HLEN', M) == 0 then
            redis.call('HSET', M, other, x .. ' ' .. theirs .. ' 0 ' .. len .. ' ' .. rest)
            redis.call('PEXPIREAT', M, string.sub(x, 1, -4))
            earliest, set = x, x - len
          end
        end
      elseif redis.call('EXISTS', Q, M) == 0 then
        replies[call] = token
      else
        -- Left behind by a state that was deleted. The last part serves the queue first, and drops the records.
        redis.call('DEL', L)
      end
      -- Nobody waits. Join the others if none of their leases can have ended, and the clock was not set back.
      if
        earliest
        and tonumber(earliest) > now
        and tonumber(set) <= now
        and redis.pcall('HEXISTS', M, me) == 0
      then
        redis.call('HSET', M, me, ends .. ' ' .. token .. ' 0 ' .. ms .. '000 ' .. tag)
        -- State and records expire together, when the latest of the leases ends. In ms, rounded as PX rounds.
        local old, until_ = redis.call('PEXPIRETIME', M), string.sub(ends, 1, -4)
        if old < tonumber(until_) then
          redis.call('PEXPIREAT', M, until_)
          old = until_
        end
        local first = tonumber(earliest) < tonumber(ends) and earliest or ends
        redis.call('SET', L, 'r 0 ' .. first .. ' ' .. written, 'PXAT', old)
        replies[call] = token
      end
    end
  end
  if not replies[call] then
    left = left or {}
    left[#left + 1], left[L] = call, true
  end
end
if not left then
  return calls == 1 and replies[1] or replies
end

-- One of the other calls.
local function serve(KEYS, me, ms, pack, tag)
