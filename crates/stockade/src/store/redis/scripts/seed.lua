-- Raises the floor of a bucket's tokens; never lowers it.
-- KEYS: F. ARGV: token. Reply: the floor, or an error of the code FOREIGN if another program's value is in its place.
local last, token = redis.pcall('GET', KEYS[1]), tonumber(ARGV[1])
local floor = type(last) ~= 'table' and tonumber(last or 0)
if not floor then
  return { err = 'FOREIGN the key of the token floor holds what is no number' }
end
if token > floor and token < 9007199254740992 then
  -- The first write takes no memory, so that a server over its memory limit lets the next one pass. It must not remove
  -- the key: while its slot migrates, the server would refuse the next one.
  redis.call('PERSIST', KEYS[1])
  redis.call('SET', KEYS[1], string.format('%.0f', token))
  floor = token
end
return string.format('%.0f', floor)
