-- Asks whether the counter of a sale can be used. If it can't, and the stream is empty, the script begins a new
-- counter. From then on the script `reserve` refuses until `install` has run with the same nonce. It returns the
-- generation of the last counter, and keeps it for the next caller if this one dies: Postgres may have lost it.
--
-- KEYS  sale, customers, reservations, stream
-- ARGV  id of the sale, its generation, nonce, a later generation that Postgres has lost (empty: none)
local run = current_run()
local sale = redis.call('HMGET', KEYS[1], 'id', 'state', 'run', 'generation', 'since')
-- Fails if another program put a value there, so that the caller hears of it and not only those who reserve.
redis.call('HLEN', KEYS[2])
redis.call('HLEN', KEYS[3])
local id, state = sale[1], sale[2]
local now = tonumber(redis.call('TIME')[1])
if id and tonumber(id) > tonumber(ARGV[1]) then return {'later', id} end
if id == ARGV[1] then
  if state == 'closed' then return {'closed'} end
  if sale[3] == run and state ~= 'entered' then
    local generation, newest = tonumber(sale[4]), tonumber(ARGV[2])
    if state == 'open' and generation == newest then return {'valid'} end
    if generation > newest and sale[4] ~= ARGV[4] then return {'replaced', sale[4]} end
    -- What this counter lets in would be rejected.
    redis.call('HSET', KEYS[1], 'state', 'superseded')
    -- A later counter was made, on another server: this one is not the truth any more.
    if generation < newest then return {'superseded'} end
  end
  -- Somebody else makes it. If the clock was set back, nobody knows for how long, so the caller makes it too: the nonce
  -- keeps the two apart.
  local age = sale[3] == run and state == 'entered' and now - tonumber(sale[5])
  if age and age >= 0 and age < 2 then return {'busy'} end
end

redis.pcall('XGROUP', 'CREATE', KEYS[4], 'postgres', '0', 'MKSTREAM')
if redis.call('XLEN', KEYS[4]) > 0 then return {'draining'} end
local last = id == ARGV[1] and sale[4] or ARGV[2]
redis.call('UNLINK', KEYS[1], KEYS[2], KEYS[3])
redis.call('HSET', KEYS[1], 'id', ARGV[1], 'state', 'entered', 'run', run, 'nonce', ARGV[3], 'since', now,
  'generation', last)
return {'entered', last}
