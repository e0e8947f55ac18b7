-- Forgets the filter and begins it anew with another hash function, and with this size. Nothing can be said until it is built.
--
-- Whoever adds, builds or asks by the hash function from before is told that it is another by now.
-- KEYS: state and bits, see check.lua. ARGV: a random seed, size (`bits hashes`). Reply: {RESET}
redis.call('DEL', KEYS[1], KEYS[2], KEYS[3])
redis.call('HSET', KEYS[1], 'seed', ARGV[1], 'size', ARGV[2])
return {'RESET'}
