-- Last part of foreign.lua, after common.lua.
for key, word in pairs({ [Q] = 'queue', [W] = 'waiters', [M] = 'holders' }) do
  if type(redis.pcall(key == Q and 'ZCARD' or 'HLEN', key)) == 'table' then
    return word
  end
end
local floor = redis.pcall('GET', F)
if type(floor) == 'table' or (floor and not tonumber(floor)) then
  return 'floor'
end
return pcall(load, redis.pcall('GET', L)) and '' or 'state'
