-- Second part of acquire.lua, after names.lua.
local how, place, wait, cap, G, skip, chan, yield =
  string.match(pack, '^(%a%d*) (%d+) (%-?%d+) (%d+) (%d+) (%d) (%S+) (%d)$')
wait, cap, G, skip = tonumber(wait), tonumber(cap), G * 1000, skip == '1'
local seq = tonumber(place)
if calls > 1 or raw == nil then
  raw = redis.call('GET', L)
end
