-- Takes all of these resources exclusively, or changes nothing when one of them is held or waited for.
-- KEYS: L F Q W M of each resource, see common.lua.
-- ARGV: lease ms, tag, stamp and age as for stamp.lua, then the owner of each resource.
-- Reply: `HELD token ...` in the order of KEYS, `TAKEN now`, or `STALE now`, times in µs.

-- Without L there is neither holder nor queue. With it there may be no holder any more: whoever waits comes first then,
-- and that is for the script to decide that takes one resource.
for i = 1, #KEYS, 5 do
  if redis.call('EXISTS', KEYS[i]) == 1 then
    return string.format('TAKEN %.0f', now)
  end
end

-- All tokens before the first lease: a bucket without tokens left must not leave the others held. The first write is
-- also the one that a server out of memory refuses.
local tokens, written = {}, string.format('%.0f', now)
for i = 2, #KEYS, 5 do
  tokens[#tokens + 1] = mint(KEYS[i], now, written)
end
for i, token in ipairs(tokens) do
  local state = string.format('w 0 0 %s %s %.0f %s000 %s', ARGV[4 + i], token, now + ARGV[1] * 1000, ARGV[1], ARGV[2])
  redis.call('SET', KEYS[i * 5 - 4], state, 'PX', ARGV[1])
end
return 'HELD ' .. table.concat(tokens, ' ')
