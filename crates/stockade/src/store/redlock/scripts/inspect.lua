-- Reads which value holds the lock on this server.
-- KEYS: lock. ARGV: none. Reply: the value (empty: nobody holds it), ms left (-1: it never expires).
-- pcall: another program may keep a list or a hash under this name, and GET on one is an error.
local held = redis.pcall('GET', KEYS[1])
if type(held) ~= 'string' then
  return { '', 0 }
end
return { held, redis.call('PTTL', KEYS[1]) }
