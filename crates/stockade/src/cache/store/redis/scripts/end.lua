-- Ends the intent of a transaction that committed or rolled back, and drops the value. Idempotent, except that each
-- call takes a number of the sequence.
--
-- KEYS: E entry (hash), I intents (hash), S sequence, A intents of the cache (sorted set, see begin.lua)
-- ARGV: resource, bucket, channel, inbox prefix, intent
-- Reply: {ENDED, now, seq}, or {MISSING, now, seq} if the intent was not there: the server lost it, or another process
--   ended it
-- Messages: as invalidate.lua
local time = redis.call('TIME')
local there = own_call('HDEL', KEYS[2], ARGV[5]) == 1
local reply = {there and 'ENDED' or 'MISSING', string.format('%.0f', time[1] * 1000000 + time[2])}
local resource, bucket, channel, inbox = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
own_call('ZREM', KEYS[4], ARGV[5] .. ' ' .. resource)
