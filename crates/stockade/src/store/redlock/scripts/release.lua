-- Deletes the lock on this server, if the value holds it.
-- KEYS: lock. ARGV: value. Reply: 1: deleted, 0: the value does not hold the lock.
-- pcall: another program may keep a list or a hash under this name, and GET on one is an error.
if redis.pcall('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
