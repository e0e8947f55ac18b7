-- Takes over an expired lock, unless another client was faster.
-- KEYS: the lock. ARGV: the expired time as the caller has read it, the new time.
-- Reply: 1: taken, 0: the key holds another time, or none.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call('SET', KEYS[1], ARGV[2])
return 1
