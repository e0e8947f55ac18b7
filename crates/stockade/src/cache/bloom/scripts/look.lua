-- Says how the filter is, and keeps it from expiring.
-- KEYS: state and bits, see check.lua. ARGV: run id, ms after which a filter that nobody uses goes, seed
-- Reply: {READY or UNKNOWN, keys in the filter, its epoch}, or {RESEED} when the seed is another by now
local state = redis.call('HMGET', KEYS[1], 'epoch', 'run', 'keys', 'size', 'seed')
if state[5] ~= ARGV[3] then
  return {'RESEED'}
end
for _, key in ipairs(KEYS) do
  redis.call('PEXPIRE', key, ARGV[2])
end
local ready = state[1] and state[2] == ARGV[1]
  and redis.call('STRLEN', KEYS[2 + tonumber(state[1]) % 2]) == math.ceil(string.match(state[4], '^%d+') / 8)
return {ready and 'READY' or 'UNKNOWN', tonumber(state[3] or 0), tonumber(state[1] or 0)}
