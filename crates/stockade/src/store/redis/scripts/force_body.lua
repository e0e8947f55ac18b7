-- Last part of force.lua, after common.lua.
-- Foreign values are deleted first, whatever they are.
for key, read in pairs({ [F] = 'GET', [Q] = 'ZCARD', [W] = 'HLEN', [M] = 'HLEN' }) do
  local reply = redis.pcall(read, key)
  if type(reply) == 'table' or (key == F and reply and not tonumber(reply)) then
    redis.call('DEL', key)
  end
end
-- Makes the first write one that a server out of memory allows, as in release_queued.lua.
redis.call('HDEL', W, '')
if not pcall(load, redis.pcall('GET', L)) then
  redis.call('DEL', L)
  mode, holder = 'n', nil
end
spread()
expire()
local holders = 0
if mode == 'w' then
  holders = 1
  tell(holder.owner, 'F')
  mode, holder = 'n', nil
elseif mode ~= 'n' then
  local all = redis.call('HGETALL', M)
  for i = 1, #all, 2 do
    holders = holders + 1
    if ARGV[1] == 'now' then
      redis.call('HDEL', M, all[i])
      tell(all[i], 'F')
    else
      local x, token, c, len, tag = string.match(all[i + 1], '^(%d+) (%d+) (%d) (%d+) %d (.*)$')
      share(all[i], token, tonumber(x), c, tonumber(len), '2', tag)
      tell(all[i], 'W')
    end
  end
  if ARGV[1] == 'now' then
    mode = 'n'
  end
end
local token = mint(F, now, fmt(now))
grant()
save()
return { holders, token }
