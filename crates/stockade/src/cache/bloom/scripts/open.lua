-- Gives the key of the filter's hash function and the size of the filter, and chooses them if there are none. A filter that
-- was completed under another run of the server counts as such no more, also when that run comes back, and one whose building
-- began under another run is not completed: either may lack bits.
-- KEYS: state of the filter, see check.lua. ARGV: a random seed, size (`bits hashes`), run id. Reply: `seed bits hashes`.
-- First a write that takes no memory, so that a server over its limit lets those after it pass. There is no such field.
redis.call('HDEL', KEYS[1], '')
if redis.call('HSETNX', KEYS[1], 'seed', ARGV[1]) == 1 then
  redis.call('HSET', KEYS[1], 'size', ARGV[2])
end
if redis.call('HGET', KEYS[1], 'run') ~= ARGV[3] then
  redis.call('HDEL', KEYS[1], 'run')
end
if redis.call('HGET', KEYS[1], 'brun') ~= ARGV[3] then
  redis.call('HDEL', KEYS[1], 'building', 'builder', 'until', 'bkeys', 'brun')
end
return redis.call('HGET', KEYS[1], 'seed') .. ' ' .. redis.call('HGET', KEYS[1], 'size')
