-- Publishes the last sequence number of some buckets and the epoch again. From these messages each process sees that it
-- is subscribed and has missed nothing.
--
-- KEYS: C epoch (string, see epoch.lua), S sequence of each bucket
-- ARGV: channel, newest known epoch, then the number of each bucket
-- Reply: {BEAT, now}
-- Messages to the channel: `E <epoch>`; `<bucket> <seq> -`, one for each bucket
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
redis.call('PUBLISH', ARGV[1], 'E ' .. epoch_now(KEYS[1], ARGV[1], ARGV[2], now))
for i = 2, #KEYS do
  local number = own_call('GET', KEYS[i]) or ''
  redis.call('PUBLISH', ARGV[1], ARGV[i + 1] .. ' ' .. (string.match(number, '^%d+$') and number or '0') .. ' -')
end
return {'BEAT', string.format('%.0f', now)}
