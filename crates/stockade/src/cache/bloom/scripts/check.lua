-- Says for each key whether it may be in the filter.
--
-- KEYS: state (hash), bits of the even epochs, bits of the odd epochs (strings)
-- The fields of the state:
-- - seed: of the hash function; size: `bits hashes`
-- - epoch: the one whose bits are complete; run: of the server when they were completed; keys: how many are in them
-- - while the next epoch is being built: building (its number), builder, until (µs, end of the builder's lease), bkeys,
--   brun (run of the server)
-- ARGV: run id, seed, hashes per key, then as many bit numbers for each key
-- Reply: {KNOWN, 0 or 1 for each key}; {UNKNOWN} if there is no complete filter, or another run of the server may have
-- lost bits
-- The first command is a write that changes nothing, since there is no such field. A primary that lost its replicas may
-- have been replaced without knowing it. Such a primary still answers reads, but with `min-replicas-to-write` it
-- rejects writes.
redis.call('HDEL', KEYS[1], '')
local state = redis.call('HMGET', KEYS[1], 'epoch', 'run', 'seed', 'size')
if not state[1] or state[2] ~= ARGV[1] or state[3] ~= ARGV[2] then
  return {'UNKNOWN'}
end
local bits = KEYS[2 + tonumber(state[1]) % 2]
-- If the bits were evicted and another process has added a key since, the string is shorter.
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
