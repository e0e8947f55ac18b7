-- Returns the seed of the filter's hash function and the size of the filter. If there are none, it chooses them.
-- A filter that was completed under another run of the server does not count as complete, even if that run comes back.
-- A filter whose building began under another run is not completed. Either may lack bits.
-- KEYS: state of the filter, see check.lua. ARGV: a random seed, size (`bits hashes`), run id.
-- Reply: `seed bits hashes`.
-- The first write takes no memory (there is no such field), so that a server over its memory limit lets the rest pass.
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
