-- Raises the floor of a bucket's tokens; never lowers it.
-- KEYS: F. ARGV: token. Reply: the floor.
local floor, token = tonumber(redis.call('GET', KEYS[1]) or 0), tonumber(ARGV[1])
if token > floor and token < 9007199254740992 then
  -- The first write takes no memory, so that a server over its memory limit lets the next one pass.
  redis.call('DEL', KEYS[1])
  redis.call('SET', KEYS[1], string.format('%.0f', token))
  floor = token
end
return string.format('%.0f', floor)
