-- Extends leases by their length from now. Creates nothing.
-- KEYS: lock and F of each resource. ARGV: value and lease ms of each.
-- Reply: now in µs, then for each 1 extended, 0 held by nobody, 2 held by another, 3 held by nobody on a server that
--   has no floor either and so has lost its data.
local time = redis.call('TIME')
local replies = { string.format('%.0f', time[1] * 1000000 + time[2]) }
for i = 1, #KEYS, 2 do
  -- Another program may keep something that is no string under the same name.
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
