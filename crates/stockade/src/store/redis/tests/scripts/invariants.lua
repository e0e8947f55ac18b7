-- Checks what must hold after every script.
-- KEYS: L F Q W M of a resource. ARGV: `stepped` if the clock may have been set back, else none.
-- Reply: an empty text, or the broken invariant; server time in µs; the state or an empty text; the queue; owners and
--   records of readers.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local function broken()
  local L, F, Q, W, M = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
  local l, queue, records, readers = redis.call('GET', L), redis.call('ZCARD', Q), redis.call('HLEN', W), redis.call('HLEN', M)
  local floor = tonumber(redis.call('GET', F) or 0)
  if not l then
    if queue + records + readers > 0 then return 'no state but ' .. queue .. ' ' .. records .. ' ' .. readers end
    return ''
  end
  local mode, q = string.sub(l, 1, 1), string.sub(l, 3, 3)
  local only = string.match(l, '^[wr] %d %d %S+%.%S+ .*$')
  if only and readers > 0 then return 'one holder and readers: ' .. l end
  local first, capacity = string.match(l, '^[rs] %d (%d+) %d+ ?(%d*)$')
  -- A script that was interrupted until a lease is over sets an expiry that is already past. Redis deletes the records
  -- at once, and the state, which has the same expiry, only after that millisecond.
  local over = first and math.floor(first / 1000) <= math.floor(now / 1000)
  if not only and (mode == 'r' or mode == 's') and readers == 0 and not over then return 'no shared holders: ' .. l end
  if mode == 's' and readers > tonumber(capacity) then return readers .. ' hold permits: ' .. l end
  -- After a jump of the clock the queue may have expired before the state, while no script ran.
  local jumped = ARGV[1] == 'stepped' and queue == 0
  if (q == '1') ~= (queue > 0) and not jumped then return 'queue flag: ' .. l .. ' but ' .. queue end
  if mode == 'n' then return 'free with a queue: ' .. l end
  if queue ~= records then return 'queue ' .. queue .. ' records ' .. records end
  local kept = math.min(redis.call('PEXPIRETIME', Q), redis.call('PEXPIRETIME', W))
  for _, owner in ipairs(redis.call('ZRANGE', Q, 0, -1)) do
    local record = redis.call('HGET', W, owner)
    if not record then return 'no record of ' .. owner end
    local deadline = string.match(record, '^%a%d* (%d+)')
    if kept < deadline / 1000 + 10000 then return 'the queue ends too soon for ' .. record end
  end
  local function above(token) return tonumber(token) > floor end
  -- A lease ends at most its length from now.
  local function longer(x, len) return ARGV[1] ~= 'stepped' and tonumber(x) - tonumber(len) > now end
  if only then
    local token, x, len = string.match(l, '^[wr] %d %d %S+ (%d+) (%d+) (%d+) ')
    if above(token) then return 'token above the floor: ' .. l end
    if longer(x, len) then return 'longer than its lease: ' .. l end
  end
  for _, record in ipairs(redis.call('HVALS', M)) do
    local x, token, len = string.match(record, '^(%d+) (%d+) %d (%d+) ')
    if above(token) then return 'token above the floor: ' .. record end
    if longer(x, len) then return 'longer than its lease: ' .. record end
    if tonumber(x) < tonumber(first) then return record .. ' ends before ' .. first end
  end
  local head = redis.call('HGET', W, redis.call('ZRANGE', Q, 0, 0)[1] or '')
  local wants, permits, deadline = string.match(head or '', '^(%a)(%d*) (%d+)')
  if mode == 'r' and wants == 'r' then return 'a reader waits before others: ' .. head end
  if mode == 's' and wants == 's' and permits == capacity and readers < tonumber(capacity) then return 'a free permit: ' .. l end
  if string.find(l, 'e+', 1, true) then return 'rounded: ' .. l end
  for _, name in ipairs(KEYS) do
    if name ~= F and redis.call('EXISTS', name) == 1 and redis.call('PTTL', name) < 0 then return 'no expiry: ' .. name end
  end
  if queue > 0 and redis.call('PEXPIRETIME', L) <= redis.call('PEXPIRETIME', Q) then return 'ends before its queue: ' .. l end
  return ''
end
local found = broken()
local queue, readers = redis.call('ZRANGE', KEYS[3], 0, -1), redis.call('HGETALL', KEYS[5])
return { found, string.format('%.0f', now), redis.call('GET', KEYS[1]) or '', queue, readers }
