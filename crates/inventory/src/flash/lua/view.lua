-- What a counter says of its sale: units left, or nothing while it can't be used.
--
-- KEYS  sale
-- ARGV  id of the sale
local sale = redis.call('HMGET', KEYS[1], 'id', 'state', 'run', 'left')
if sale[1] ~= ARGV[1] or sale[2] ~= 'open' or sale[3] ~= current_run() then return false end
return sale[4]
