-- Drops what was kept for a closed sale. That it is closed is remembered for a day.
--
-- KEYS  sale, customers, reservations, stream
-- ARGV  id of the sale
local sale = redis.call('HMGET', KEYS[1], 'id', 'state')
if sale[1] ~= ARGV[1] or sale[2] ~= 'closed' or redis.call('XLEN', KEYS[4]) > 0 then return 0 end
redis.call('UNLINK', KEYS[2], KEYS[3], KEYS[4])
redis.call('EXPIRE', KEYS[1], 86400)
return 1
