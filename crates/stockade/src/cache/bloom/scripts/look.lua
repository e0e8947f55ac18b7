-- Says how the filter is, and keeps it from expiring.
-- KEYS: state and bits, see check.lua. ARGV: run id, ms after which a filter that nobody uses goes
-- Reply: {READY or UNKNOWN, keys in the filter}
local state = redis.call('HMGET', KEYS[1], 'epoch', 'run', 'keys', 'size')
for _, key in ipairs(KEYS) do
  redis.call('PEXPIRE', key, ARGV[2])
end
local ready = state[1] and state[2] == ARGV[1] and redis.call('STRLEN', KEYS[2 + tonumber(state[1]) % 2]) == math.ceil(string.match(state[4], '^%d+') / 8)
return {ready and 'READY' or 'UNKNOWN', tonumber(state[3] or 0)}
