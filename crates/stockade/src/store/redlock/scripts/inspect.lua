-- Reads who holds the resource on this server.
-- KEYS: lock. ARGV: none. Reply: the value or an empty string, ms left (-1: without end).
local held = redis.pcall('GET', KEYS[1])
if type(held) ~= 'string' then
  return { '', 0 }
end
return { held, redis.call('PTTL', KEYS[1]) }
