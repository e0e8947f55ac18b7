-- Gives the resource back on this server, if the value holds it.
-- KEYS: lock. ARGV: value. Reply: 1 given back, 0 not held by the value.
-- Another program may keep something that is no string under the same name.
if redis.pcall('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
