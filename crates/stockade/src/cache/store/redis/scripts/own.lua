-- First part of every script that uses keys of a cache: the first use of a key is `own_call`, in place of `redis.call`.
--
-- A value of another type, or a text where a number is counted, was not put there by a cache. It is deleted, as if the
-- key had been lost: otherwise every call would fail until somebody deletes it by hand.
local function own_call(command, key, ...)
  local reply = redis.pcall(command, key, ...)
  if type(reply) ~= 'table' or not reply.err then
    return reply
  end
  for _, foreign in ipairs({'WRONGTYPE', 'not an integer', 'would overflow'}) do
    if string.find(reply.err, foreign, 1, true) then
      redis.call('DEL', key)
    end
  end
  return redis.call(command, key, ...)
end

-- The next number of a sequence. After one that processes could not read, it begins anew, which they notice.
local function next_number(key)
  local number = own_call('INCR', key)
  if number < 1 or number > 9007199254740991 then
    redis.call('DEL', key)
    number = redis.call('INCR', key)
  end
  return string.format('%.0f', number)
end

