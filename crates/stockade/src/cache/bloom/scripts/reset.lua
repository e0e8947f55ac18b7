-- Drops the filter and begins a new one with another hash function and this size. Until it is built, every answer is
-- UNKNOWN.
--
-- Every process that adds, builds or asks with the old hash function is told that the seed has changed.
-- KEYS: state and bits, see check.lua. ARGV: a random seed, size (`bits hashes`). Reply: {RESET}
redis.call('DEL', KEYS[1], KEYS[2], KEYS[3])
redis.call('HSET', KEYS[1], 'seed', ARGV[1], 'size', ARGV[2])
return {'RESET'}
