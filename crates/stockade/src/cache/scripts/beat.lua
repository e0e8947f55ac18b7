-- Repeats the last sequence number of some buckets, so that each process sees that it is subscribed and missed nothing.
--
-- KEYS: S sequence of each bucket
-- ARGV: channel, then the number of each bucket
-- Reply: {BEAT, now}
-- Messages: `<bucket> <seq> -` to the channel, one for each bucket
local time = redis.call('TIME')
for i, key in ipairs(KEYS) do
  local number = own_call('GET', key) or ''
  redis.call('PUBLISH', ARGV[1], ARGV[i + 1] .. ' ' .. (string.match(number, '^%d+$') and number or '0') .. ' -')
end
return {'BEAT', string.format('%.0f', time[1] * 1000000 + time[2])}
