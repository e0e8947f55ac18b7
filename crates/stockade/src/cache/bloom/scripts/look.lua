-- Says how the filter is, and keeps it from expiring.
-- KEYS: state and bits, see check.lua. ARGV: run id, ms after which a filter that nobody uses goes
-- Reply: {READY or UNKNOWN, keys in the filter}
local state = redis.call('HMGET', KEYS[1], 'epoch', 'run', 'keys')
for _, key in ipairs(KEYS) do
  redis.call('PEXPIRE', key, ARGV[2])
end
local ready = state[1] and state[2] == ARGV[1] and redis.call('EXISTS', KEYS[2 + tonumber(state[1]) % 2]) == 1
return {ready and 'READY' or 'UNKNOWN', tonumber(state[3] or 0)}
