-- Says whether this run of the server is trusted. A run that no relay has vouched for may be a replica that was
-- promoted without the newest invalidations.
--
-- KEYS: marker of the cache, `run since state` (state t: trusted; u: not trusted yet; r: not trusted yet, and it
--   replaced another run); C epoch (string, see epoch.lua)
-- ARGV: run id, ms after which no value from before the run can be left, channel, newest known epoch
-- Reply: {TRUSTED, now, epoch}, {UNTRUSTED, now, epoch}, or {REPLACING, now, epoch} in state r
-- Messages: `E <epoch>` to the channel, if the epoch was lost
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local now_text = string.format('%.0f', now)
local marker = redis.pcall('GET', KEYS[1])
local run, since, state = string.match(type(marker) == 'string' and marker or '', '^(%S+) (%d+) (%a)$')
if run ~= ARGV[1] then
  -- A marker that can't be read counts as that of another run. So does one that is gone while there is an epoch: it was
  -- evicted. A cache without an epoch has no valid value yet.
  run, since, state = ARGV[1], now_text, (marker or epoch_there(KEYS[2]) > 0) and 'r' or 'u'
  -- The first write takes no memory, so that a server over its memory limit lets the next one pass.
  redis.call('DEL', KEYS[1])
  redis.call('SET', KEYS[1], run .. ' ' .. since .. ' ' .. state)
end
-- A `since` in the future was written before the clock was set back. It makes no run trusted.
local trusted = state == 't' or (now - since > ARGV[2] * 1000)
local epoch = epoch_now(KEYS[2], ARGV[3], ARGV[4], now)
return {trusted and 'TRUSTED' or state == 'r' and 'REPLACING' or 'UNTRUSTED', now_text, epoch}
