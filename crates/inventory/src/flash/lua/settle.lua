-- Removes entries that Postgres has. Acknowledging and deleting happen together: an entry that was acknowledged but is
-- still in the stream would never be read again. Returns how many entries are left.
--
-- KEYS  stream
-- ARGV  ids of entries
for _, entry in ipairs(ARGV) do
  redis.call('XACK', KEYS[1], 'postgres', entry)
  redis.call('XDEL', KEYS[1], entry)
end
return redis.call('XLEN', KEYS[1])
