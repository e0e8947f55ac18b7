-- Releases resources, or removes owners from their queues, and grants to the next waiters. One call is about one
-- resource; several calls may come together.
-- KEYS: L of each call; in a cluster L F Q W M Z of the only call, see names.lua.
-- ARGV: pack = `grant skip channel` as for acquire.lua, then the owner of each call.
-- Reply to a call: 1: the owner held the resource, 2: the owner was in the queue, 0: neither. 10 more if another call
--   can serve more waiters. To several calls: an array of the replies.
local calls = #ARGV - 1
-- The calls that are not answered here.
local replies, left = {}, nil
-- What the last of the resources held, and the calls whose record as a reader was removed here.
local raw, gone
for call = 1, calls do
  local L, me = KEYS[call], ARGV[call + 1]
  raw = redis.pcall('GET', L)
  -- A writer or the only reader while nobody waits. If L has another type, raw is an error, a table of length 0.
  if raw and #raw > 34 and string.sub(raw, 7, 34) == me and string.sub(raw, 3, 3) == '0' then
    redis.call('DEL', L)
    replies[call] = 1
  elseif raw and #raw > 4 and string.sub(raw, 1, 4) == 'r 0 ' and string.find(raw, '^r 0 %d+ %d+$') then
    local Q, W, M = KEYS[3], KEYS[4], KEYS[5]
    if calls > 1 or not M then
      local head, resource = string.match(L, '^([^}]*})l(:.*)$')
      Q, W, M = head .. 'q' .. resource, head .. 'w' .. resource, head .. 'm' .. resource
    end
    if redis.pcall('HDEL', M, me) == 1 then
      if redis.call('EXISTS', Q, W, M) == 0 then
        redis.call('DEL', L)
        replies[call] = 1
      elseif redis.call('HLEN', M) > 0 then
        replies[call] = 1
      else
        -- Somebody waits although the state does not say so: the last part grants.
        gone = gone or {}
        gone[call] = true
      end
    end
  end
  if not replies[call] then
    left = left or {}
    left[#left + 1] = call
  end
end
if not left then
  return calls == 1 and 1 or replies
end

-- One of the other calls. `gone`: whether its record as a reader was removed.
local function serve(KEYS, me, gone)
