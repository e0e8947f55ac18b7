-- Announces a write that is about to commit: until its intent ends, no value of this key is stored or served.
--
-- The intent has no expiry. It must not be taken for ended because time passed: its transaction may still be committing.
--
-- KEYS: E entry (hash), I intents (hash), S sequence
-- ARGV: resource, bucket, channel, inbox prefix, intent, transaction id
-- Reply: {BEGUN, now, seq}
-- Messages: as invalidate.lua
local time = redis.call('TIME')
local now = string.format('%.0f', time[1] * 1000000 + time[2])
local reply = {'BEGUN', now}
local resource, bucket, channel, inbox = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
own_call('HSET', KEYS[2], ARGV[5], ARGV[6] .. ' ' .. now)
