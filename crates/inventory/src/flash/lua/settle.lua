-- Removes entries that Postgres has. Acknowledging and deleting happen together: an entry that was acknowledged but is
-- still in the stream would never be read again. Returns how many entries are left.
--
-- A stream that was lost begins again, and if the clock was set back a new entry may have the id of a lost one. So an
-- entry is removed only if it says what the caller has read.
--
-- KEYS  stream
-- ARGV  ids of entries, each followed by the words of the entry
for place = 1, #ARGV, 2 do
  local id = ARGV[place]
  local entry = redis.call('XRANGE', KEYS[1], id, id)[1]
  if not entry then
    redis.call('XACK', KEYS[1], 'postgres', id)
  elseif table.concat(entry[2], ' ') == ARGV[place + 1] then
    redis.call('XACK', KEYS[1], 'postgres', id)
    redis.call('XDEL', KEYS[1], id)
  end
end
return redis.call('XLEN', KEYS[1])
