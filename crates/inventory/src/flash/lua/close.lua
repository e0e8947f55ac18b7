-- Lets no reservation into a sale any more. Returns how many of its entries wait for Postgres.
--
-- KEYS  sale, stream
-- ARGV  id of the sale
local id = redis.call('HGET', KEYS[1], 'id')
if not id or tonumber(id) <= tonumber(ARGV[1]) then
  redis.call('HSET', KEYS[1], 'id', ARGV[1], 'state', 'closed')
  redis.call('HDEL', KEYS[1], 'nonce', 'since')
end
return redis.call('XLEN', KEYS[2])
