-- Opens a counter that was made, unless somebody else has begun to make it since, or the server has been another.
--
-- KEYS  sale
-- ARGV  nonce, generation, units left, units per customer, end in milliseconds
local run = current_run()
local sale = redis.call('HMGET', KEYS[1], 'nonce', 'run', 'state')
if sale[1] ~= ARGV[1] or sale[2] ~= run or sale[3] ~= 'entered' then return 0 end
redis.call('HSET', KEYS[1], 'state', 'open', 'generation', ARGV[2], 'left', ARGV[3], 'per_customer', ARGV[4],
  'ends_ms', ARGV[5])
redis.call('HDEL', KEYS[1], 'nonce', 'since')
return 1
