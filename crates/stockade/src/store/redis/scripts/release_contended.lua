-- Last part of release.lua, after common.lua.
load(raw)
local found = 0
if gone then
  found = 1
elseif mode == 'w' and holder.owner == me then
  mode, holder, found = 'n', nil, 1
elseif (mode == 'r' or mode == 's') and redis.call('HDEL', M, me) == 1 then
  found = 1
  local left = redis.call('HLEN', M)
  if left > 0 and string.sub(raw, 3, 3) == '0' then
    return 1
  elseif left == 0 then
    mode = 'n'
  end
elseif leave(me) then
  found = 2
elseif mode ~= 'n' and string.sub(raw, 3, 3) == '0' then
  -- While others wait, this may be the repeated call that serves more of them.
  return 0
end
spread()
expire()
grant()
save()
return more and found + 10 or found
end

for _, call in ipairs(left) do
  local names = calls == 1 and KEYS or { KEYS[call] }
  local answered, reply = pcall(serve, names, ARGV[call + 1], gone and gone[call])
  replies[call] = (answered or type(reply) == 'table') and reply or redis.error_reply('ERR ' .. tostring(reply))
end
return calls == 1 and replies[1] or replies
