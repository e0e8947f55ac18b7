-- Part of lease.lua, clear.lua, join.lua and heartbeat.lua: the epoch of the cache. Every clear begins a new one.
--
-- C (string) is the number of the epoch. A value is valid only in the epoch in which its load was leased. Numbers only
-- grow. If a server has the values but not the newest number, any process that knows the number tells it to the server.
-- If the number is lost, a new epoch begins, and all values are loaded again.
--
-- A new number is published in the script that sets it. So on the connection of a process the message comes before the
-- reply to any later command.
local function epoch_begin(key, channel, epoch)
  local number = string.format('%.0f', epoch)
  -- The first write takes no memory, so that a server over its memory limit lets the next one pass.
  redis.call('DEL', key)
  redis.call('SET', key, number)
  redis.call('PUBLISH', channel, 'E ' .. number)
  return number
end

-- The number of the epoch. 0 if it is lost, or if the key holds something that no cache has written.
local function epoch_there(key)
  local number = redis.pcall('GET', key)
  local epoch = type(number) == 'string' and string.match(number, '^[1-9]%d*$') and tonumber(number) or 0
  return epoch < 9007199254740992 and epoch or 0
end

-- The number of the present epoch; begins a new one if need be. `known` is the newest number that the caller has heard
-- of.
local function epoch_now(key, channel, known, now)
  local epoch, least = epoch_there(key), tonumber(known)
  if epoch > 0 and epoch >= least then
    return string.format('%.0f', epoch)
  end
  return epoch_begin(key, channel, epoch > 0 and least or math.max(least + 1, now))
end

