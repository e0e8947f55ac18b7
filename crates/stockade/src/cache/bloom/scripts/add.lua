-- Adds keys to the complete filter and to the one that is being built. The builder adds only to the latter.
-- KEYS: state and bits, see check.lua
-- ARGV: seed, builder or an empty string, ms of the builder's lease, hashes per key, then as many bit numbers for each
-- key
-- Reply: {ADDED}; {RESEED} if the seed has changed; {LOST} if another process builds by now, or the bits are gone
-- The first command is a write, see check.lua: a server that rejects writes must also reject ids for which it has no
-- filter. No write in this script takes memory.
redis.call('HDEL', KEYS[1], '')
local state = redis.call('HMGET', KEYS[1], 'seed', 'epoch', 'building', 'builder', 'size')
if state[1] ~= ARGV[1] then
  return {'RESEED'}
end
local length = math.ceil(string.match(state[5], '^%d+') / 8)
local function whole(epoch)
  return epoch and redis.call('STRLEN', KEYS[2 + tonumber(epoch) % 2]) == length
end
local targets = {}
if ARGV[2] == '' then
  if whole(state[2]) then
    targets.keys = KEYS[2 + tonumber(state[2]) % 2]
  end
elseif state[4] ~= ARGV[2] or not whole(state[3]) then
  return {'LOST'}
else
  local time = redis.call('TIME')
  redis.call('HSET', KEYS[1], 'until', string.format('%.0f', time[1] * 1000000 + time[2] + ARGV[3] * 1000))
end
if whole(state[3]) then
  targets.bkeys = KEYS[2 + tonumber(state[3]) % 2]
end
local hashes = tonumber(ARGV[4])
for counter, bits in pairs(targets) do
  local added = 0
  for first = 5, #ARGV, hashes do
    local new = 0
    for i = first, first + hashes - 1 do
      new = new + 1 - redis.call('SETBIT', bits, ARGV[i], 1)
    end
    added = added + (new > 0 and 1 or 0)
  end
  redis.call('HINCRBY', KEYS[1], counter, added)
end
return {'ADDED'}
