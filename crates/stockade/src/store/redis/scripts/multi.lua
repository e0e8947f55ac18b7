-- Takes all of these resources exclusively. Changes nothing if one of them is held or waited for.
-- KEYS: L F Q W M Z of each resource, see names.lua.
-- ARGV: stamp and age as for stamp.lua, lease in ms, tag, then the owner of each resource.
-- Reply: `HELD token ...` in the order of KEYS, `TAKEN now`, or `STALE now`; times in µs.

-- Without L there is neither holder nor queue. L may be left although its holder's lease has ended. Then the waiters
-- come first, and acquire.lua, which takes one resource, serves them.
for i = 1, #KEYS, 6 do
  if redis.call('EXISTS', KEYS[i]) == 1 then
    return string.format('TAKEN %.0f', now)
  end
end

-- All tokens are made before the first resource is taken. If a bucket has no tokens left, or the server has no memory
-- for the first write, the script fails here and nothing is held.
local tokens, written = {}, string.format('%.0f', now)
for i = 2, #KEYS, 6 do
  tokens[#tokens + 1] = mint(KEYS[i], now, written)
end
for i, token in ipairs(tokens) do
  local state = string.format('w 0 0 %s %s %.0f %s000 %s', ARGV[4 + i], token, now + ARGV[3] * 1000, ARGV[3], ARGV[4])
  redis.call('SET', KEYS[i * 6 - 5], state, 'PX', ARGV[3])
end
return 'HELD ' .. table.concat(tokens, ' ')
