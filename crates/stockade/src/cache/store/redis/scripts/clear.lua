-- Drops every value of the cache, voids every running load, and tells every process. The cost does not depend on the
-- number of values.
--
-- KEYS: C epoch (string, see epoch.lua)
-- ARGV: channel, newest known epoch
-- Reply: {CLEARED, now, epoch}
-- Messages: `E <epoch>` to the channel
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local epoch = epoch_begin(KEYS[1], ARGV[1], math.max(epoch_there(KEYS[1]) + 1, tonumber(ARGV[2]) + 1, now))
return {'CLEARED', string.format('%.0f', now), epoch}
