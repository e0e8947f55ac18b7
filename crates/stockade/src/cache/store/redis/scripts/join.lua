-- Says whether the values may be believed: a run of the server that nobody vouched for may be a replica that was
-- promoted without the newest invalidations.
--
-- KEYS: marker of the cache, `run since state` (state t: vouched for, u: not yet, r: not yet, and it replaced another);
--   C epoch (string, see epoch.lua)
-- ARGV: run id, ms after which no value from before the run can be left, channel, newest known epoch
-- Reply: {TRUSTED, now, epoch}, {UNTRUSTED, now, epoch}, or {REPLACING, now, epoch} in state r
-- Messages: `E <epoch>` to the channel, if the epoch was lost
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local now_text = string.format('%.0f', now)
local marker = redis.pcall('GET', KEYS[1])
local run, since, state = string.match(type(marker) == 'string' and marker or '', '^(%S+) (%d+) (%a)$')
if run ~= ARGV[1] then
  -- One that can't be read, or is no text, may stand where another run had its own.
  run, since, state = ARGV[1], now_text, marker and 'r' or 'u'
  -- First a write that takes no memory, so that a server over its limit lets the next pass.
  redis.call('DEL', KEYS[1])
  redis.call('SET', KEYS[1], run .. ' ' .. since .. ' ' .. state)
end
-- A since from the future was written before the clock was set back, and says nothing.
local trusted = state == 't' or (now - since > ARGV[2] * 1000)
local epoch = epoch_now(KEYS[2], ARGV[3], ARGV[4], now)
return {trusted and 'TRUSTED' or state == 'r' and 'REPLACING' or 'UNTRUSTED', now_text, epoch}
