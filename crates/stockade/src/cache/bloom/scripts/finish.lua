-- Makes the epoch that was built the complete one.
-- KEYS: state and bits, see check.lua. ARGV: builder, run id.
-- Reply: {COMPLETE}; {LOST} if another process builds by now, another run of the server has begun, or the bits are gone
local state = redis.call('HMGET', KEYS[1], 'building', 'builder', 'bkeys', 'size', 'brun')
if state[2] ~= ARGV[1] or state[5] ~= ARGV[2]
  or redis.call('STRLEN', KEYS[2 + tonumber(state[1]) % 2]) ~= math.ceil(string.match(state[4], '^%d+') / 8) then
  return {'LOST'}
end
local epoch = tonumber(state[1])
redis.call('HSET', KEYS[1], 'epoch', epoch, 'run', ARGV[2], 'keys', state[3])
redis.call('HDEL', KEYS[1], 'building', 'builder', 'until', 'bkeys', 'brun')
redis.call('DEL', KEYS[2 + (epoch + 1) % 2])
return {'COMPLETE'}
