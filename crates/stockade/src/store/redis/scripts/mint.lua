-- Makes a token above every earlier token of the bucket: the time, or one more than the floor if the clock is behind
-- it. `written` is now as text. If no token can be made, the floor keeps its value.
local function mint(F, now, written)
  local token, last = written, redis.call('SET', F, written, 'GET')
  if last then
    local floor = tonumber(last)
    if not floor then
      redis.call('SET', F, last)
      error({ err = 'FOREIGN the key of the token floor holds what is no number' })
    elseif floor >= now then
      if floor + 1 >= 9007199254740992 then
        redis.call('SET', F, last)
        error({ err = 'ERR the fencing tokens of this bucket are used up' })
      end
      token = string.format('%.0f', floor + 1)
      redis.call('SET', F, token)
    end
  end
  return token
end
