-- Lets no reservation into a sale any more. Once Postgres has all entries, only that the sale is closed is kept, for a
-- day. Returns how many of its entries wait for Postgres.
--
-- KEYS  sale, customers, reservations, stream
-- ARGV  id of the sale, `over` if Postgres has closed it, and so has every entry of it
local left = redis.call('XLEN', KEYS[4])
local sale = redis.call('HMGET', KEYS[1], 'id', 'run')
local id, is_this = sale[1], sale[1] == ARGV[1]
if not id or tonumber(id) <= tonumber(ARGV[1]) then
  -- First a command that needs no memory: after it a script may write in a server that has none left, which perhaps
  -- this sale has filled.
  redis.call('HDEL', KEYS[1], 'nonce', 'since')
  -- What an earlier sale has left here says nothing of this one.
  if not is_this then redis.call('HDEL', KEYS[1], 'run', 'whole') end
  redis.call('HSET', KEYS[1], 'id', ARGV[1], 'state', 'closed')
  redis.call('EXPIRE', KEYS[1], 86400)
end
local over = ARGV[2] == 'over' and is_this
if (left == 0 or over) and redis.call('HGET', KEYS[1], 'state') == 'closed' then
  redis.call('UNLINK', KEYS[2], KEYS[3], KEYS[4])
  redis.call('HDEL', KEYS[1], 'run')
  -- This server has lost nothing of the sale, so Postgres has all reservations.
  if left == 0 and is_this and sale[2] == current_run() then redis.call('HSET', KEYS[1], 'whole', '1') end
end
return left
