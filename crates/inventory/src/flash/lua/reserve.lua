-- Decides a reservation: checks that the sale is this one, that the reservation is new and that the sale accepts it,
-- then writes it down for Postgres. All reads come before the first write, so the script does everything or nothing.
--
-- KEYS  sale, customers, reservations, stream
-- ARGV  id of the sale, rest of the reservation's id, customer, quantity, entries that may wait in the stream,
--       traceparent of the request (empty: none)
local sale = redis.call('HMGET', KEYS[1], 'id', 'state', 'run', 'left', 'per_customer', 'ends_ms', 'generation',
  'whole')
local id, state, run = sale[1], sale[2], sale[3]
if not id then return {'missing'} end
if id ~= ARGV[1] then return {'other', id, state or ''} end

local reservation = id .. '-' .. ARGV[2]
local customer, quantity = ARGV[3], tonumber(ARGV[4])
local known = redis.call('HGET', KEYS[3], reservation)
if known then return {'known', reservation, sale[7] or '0', known} end
-- A counter that keeps the run of this server has all its reservations. One that was dropped, or lost, has none.
if state == 'closed' then return {run == current_run() and 'ended' or sale[8] and 'stored' or 'closed'} end
-- Another run may have lost what this counter was diminished by.
if state ~= 'open' or run ~= current_run() then return {'unsettled'} end

local now = redis.call('TIME')
if now[1] * 1000 + math.floor(now[2] / 1000) >= tonumber(sale[6]) then return {'ended'} end
if tonumber(sale[4]) < quantity then return {'sold-out'} end
local taken = tonumber(redis.call('HGET', KEYS[2], customer) or 0)
if taken + quantity > tonumber(sale[5]) then return {'limit-reached'} end
if redis.call('XLEN', KEYS[4]) >= tonumber(ARGV[5]) then return {'shed'} end

-- As text: some servers write a number as `1e+08`, and then refuse it.
redis.call('HINCRBY', KEYS[1], 'left', '-' .. ARGV[4])
redis.call('HINCRBY', KEYS[2], customer, ARGV[4])
redis.call('HSET', KEYS[3], reservation, ARGV[4] .. ':' .. customer)
local entry = {'sale', id, 'generation', sale[7], 'id', reservation, 'customer', customer, 'quantity', ARGV[4]}
if ARGV[6] ~= '' then
  entry[11], entry[12] = 'traceparent', ARGV[6]
end
redis.call('XADD', KEYS[4], '*', unpack(entry))
return {'reserved', reservation, sale[7]}
