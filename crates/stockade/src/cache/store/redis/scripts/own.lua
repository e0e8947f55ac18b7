-- First part of most scripts of the lease protocol. They use a key for the first time through `own_call`, in place of
-- `redis.call`.
--
-- If a key has another type, or holds a text in place of a number, no cache wrote it. The key is deleted, which counts
-- as its loss. Otherwise every call would fail until somebody deletes the key by hand.
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

-- The next number of a sequence. If processes could not read the number, the sequence begins again at 1, which they
-- notice.
local function next_number(key)
  local number = own_call('INCR', key)
  if number < 1 or number > 9007199254740991 then
    redis.call('DEL', key)
    number = redis.call('INCR', key)
  end
  return string.format('%.0f', number)
end

