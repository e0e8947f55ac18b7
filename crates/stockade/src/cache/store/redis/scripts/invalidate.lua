-- Drops the value, voids the token of each load that may have read the old row, and tells every process.
--
-- KEYS: E entry (hash), I intents (hash), S sequence
-- ARGV: resource, bucket, channel, inbox prefix
-- Reply: {DROPPED, now, seq}
-- Messages: `<bucket> <seq> <resource>` to the channel; `C <resource>` to the inbox of each waiting process
local time = redis.call('TIME')
local reply = {'DROPPED', string.format('%.0f', time[1] * 1000000 + time[2])}
local resource, bucket, channel, inbox = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
