-- Restarts the leases of the locks that still have their value. Creates no lock.
-- KEYS: lock and F of each resource. ARGV: value and lease in ms of each.
-- Reply: now in µs, then for each resource
--   1: extended
--   0: nobody holds it
--   2: another value holds it
--   3: nobody holds it, and F is missing too: the server has lost its data
local time = redis.call('TIME')
local replies = { string.format('%.0f', time[1] * 1000000 + time[2]) }
for i = 1, #KEYS, 2 do
  -- pcall: another program may keep a list or a hash under this name, and GET on one is an error.
  local held = redis.pcall('GET', KEYS[i])
  if held == ARGV[i] then
    redis.call('PEXPIRE', KEYS[i], ARGV[i + 1])
    replies[#replies + 1] = 1
  elseif held then
    replies[#replies + 1] = 2
  elseif redis.call('EXISTS', KEYS[i + 1]) == 1 then
    replies[#replies + 1] = 0
  else
    replies[#replies + 1] = 3
  end
end
return replies
