-- Fills one of the tables of a counter that is being made.
--
-- KEYS  sale, customers or reservations
-- ARGV  nonce, then names and values in turn
if redis.call('HGET', KEYS[1], 'nonce') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'since', redis.call('TIME')[1])
for place = 2, #ARGV, 2 do redis.call('HSET', KEYS[2], ARGV[place], ARGV[place + 1]) end
return 1
