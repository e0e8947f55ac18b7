-- Announces a write that is about to commit: until its intent ends, no value of this key is stored or served.
--
-- The intent never expires, because its transaction may still be committing however much time has passed.
--
-- The sweep for writers that died finds the intent in A, with its transaction id, without looking at all keys.
--
-- KEYS: E entry (hash), I intents (hash), S sequence, A intents of the cache (sorted set of `intent resource`, with the
--   transaction id as score)
-- ARGV: resource, bucket, channel, inbox prefix, intent, transaction id
-- Reply: {BEGUN, now, seq}
-- Messages: as invalidate.lua
local time = redis.call('TIME')
local now = string.format('%.0f', time[1] * 1000000 + time[2])
local reply = {'BEGUN', now}
local resource, bucket, channel, inbox = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
own_call('HSET', KEYS[2], ARGV[5], ARGV[6] .. ' ' .. now)
own_call('ZADD', KEYS[4], ARGV[6], ARGV[5] .. ' ' .. resource)
