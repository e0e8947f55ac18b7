-- Begins to build the next epoch. From now on every process adds to it.
-- KEYS: state and bits, see check.lua
-- ARGV: seed, builder, ms of its lease, number of bits, run id, the epoch that was found incomplete (empty: build in
-- any case), ms after which a filter that nobody uses goes
-- Reply: {BUILDING}; {RESEED} if the seed has changed; {BUSY} if another process builds, or has built since that look
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local state = redis.call('HMGET', KEYS[1], 'seed', 'epoch', 'builder', 'until')
if state[1] ~= ARGV[1] then
  return {'RESEED'}
end
-- More than a lease can be left only if the server's clock was set back.
local left = state[3] and tonumber(state[4]) - now or 0
if left > 0 and left <= ARGV[3] * 1000 and state[3] ~= ARGV[2] then
  return {'BUSY'}
end
if ARGV[6] ~= '' and ARGV[6] ~= (state[2] or '0') then
  return {'BUSY'}
end
local epoch = tonumber(state[2] or 0) + 1
local bits = KEYS[2 + epoch % 2]
redis.call('DEL', bits)
-- Allocates the whole string at once, so that an empty filter exists and no later add needs more memory.
redis.call('SETBIT', bits, tonumber(ARGV[4]) - 1, 0)
redis.call('PEXPIRE', bits, ARGV[7])
redis.call('HSET', KEYS[1], 'building', epoch, 'builder', ARGV[2], 'until', string.format('%.0f', now + ARGV[3] * 1000),
  'bkeys', 0, 'brun', ARGV[5])
return {'BUILDING'}
