-- KEYS: state. ARGV: owner. Reply: 1 when it was held by the owner and nobody waited.
local state = redis.call('GET', KEYS[1])
if state and string.sub(state, 1, 3) == 'w 0' and string.find(state, ARGV[1], 1, true) then
  return redis.call('DEL', KEYS[1])
end
return 0
