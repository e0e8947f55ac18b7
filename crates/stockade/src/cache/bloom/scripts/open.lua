-- Gives the key of the filter's hash function, and chooses it if there is none.
-- KEYS: state of the filter, see check.lua. ARGV: a random seed. Reply: the seed in force.
redis.call('HSETNX', KEYS[1], 'seed', ARGV[1])
return redis.call('HGET', KEYS[1], 'seed')
