-- Says of each key whether it may be in the filter.
--
-- KEYS: state (hash), bits of the even epochs, bits of the odd epochs (strings). The state: seed of the hash function;
--   size, `bits hashes`; epoch
--   whose bits are complete, run of the server under which they were completed, keys in them; while the next epoch is being
--   built: building (its number), builder, until (µs, end of the builder's lease), bkeys, brun (run of the server).
-- ARGV: run id, seed, hashes per key, then so many bit numbers for each key
-- Reply: {KNOWN, 0 or 1 for each key}, or {UNKNOWN}: nothing can be said, as there is no complete filter, or another run of
--   the server may have lost some of its bits
-- First a write that changes nothing, since there is no such field: a primary that lost its replicas, and may have been replaced
-- unknown to it, goes on answering reads, but refuses writes where `min-replicas-to-write` is set.
redis.call('HDEL', KEYS[1], '')
local state = redis.call('HMGET', KEYS[1], 'epoch', 'run', 'seed', 'size')
if not state[1] or state[2] ~= ARGV[1] or state[3] ~= ARGV[2] then
  return {'UNKNOWN'}
end
local bits = KEYS[2 + tonumber(state[1]) % 2]
-- Bits that were evicted and begun anew by somebody's addition would be shorter.
if redis.call('STRLEN', bits) ~= math.ceil(string.match(state[4], '^%d+') / 8) then
  return {'UNKNOWN'}
end
local hashes = tonumber(ARGV[3])
local reply = {'KNOWN'}
for first = 4, #ARGV, hashes do
  local found = 1
  for i = first, first + hashes - 1 do
    if redis.call('GETBIT', bits, ARGV[i]) == 0 then
      found = 0
      break
    end
  end
  reply[#reply + 1] = found
end
return reply
