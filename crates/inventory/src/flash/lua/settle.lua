-- Removes entries that Postgres has. An entry that was acknowledged and still lies in the stream would never be read again,
-- so both happen together. Returns how many are left.
--
-- KEYS  stream
-- ARGV  ids of entries
for _, entry in ipairs(ARGV) do
  redis.call('XACK', KEYS[1], 'postgres', entry)
  redis.call('XDEL', KEYS[1], entry)
end
return redis.call('XLEN', KEYS[1])
