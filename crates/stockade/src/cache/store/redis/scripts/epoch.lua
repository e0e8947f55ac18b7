-- First part of lease.lua, clear.lua, join.lua and heartbeat.lua: the epoch of the cache, which every clear begins
-- anew.
--
-- C (string) is its number. A value counts only in the epoch in which its load was leased. Numbers only grow: a server
-- that lost the newest one, but not the values, is told it by any process that knows it. When the number is gone,
-- nobody can say what it was, and a new epoch begins, which costs loads.
--
-- A new number is told to every process in the script that sets it, so that the news stands before the reply to any
-- command that comes after it, on the connection on which a process reads.
local function epoch_begin(key, channel, epoch)
  local number = string.format('%.0f', epoch)
  -- First a write that takes no memory, so that a server over its limit lets the next pass.
  redis.call('DEL', key)
  redis.call('SET', key, number)
  redis.call('PUBLISH', channel, 'E ' .. number)
  return number
end

-- 0 when it is gone, or what is there was not put there by a cache.
local function epoch_there(key)
  local number = redis.pcall('GET', key)
  local epoch = type(number) == 'string' and string.match(number, '^[1-9]%d*$') and tonumber(number) or 0
  return epoch < 9007199254740992 and epoch or 0
end

-- `known` is the newest that the caller has heard of.
local function epoch_now(key, channel, known, now)
  local epoch, least = epoch_there(key), tonumber(known)
  if epoch > 0 and epoch >= least then
    return string.format('%.0f', epoch)
  end
  return epoch_begin(key, channel, epoch > 0 and least or math.max(least + 1, now))
end

