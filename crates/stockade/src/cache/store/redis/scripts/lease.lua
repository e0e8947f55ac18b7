-- Returns the value, or the lease to load it, or says that somebody else is loading it.
--
-- KEYS: E entry (hash; each shape of the value has its own fields), I intents (hash), S sequence, T tags (sorted set,
--   see tags.lua), C epoch (string, see epoch.lua)
-- ARGV: token; lease ms; process; kind: `miss`, or `early` for the lease even if the value is fresh; whether the caller
--   has a value to serve (`1` or `0`; with `early` it refreshes that value); ms that a hold lasts at most; run id; shape;
--   channel; newest known epoch
-- Reply: {HIT, now, v}                         fresh value, as it is stored (see fill.lua)
--        {HELD, now, v}                        a load failed lately; v is the stored value or nil
--        {FAILING, now, remaining us}          the loads of this key keep failing: none is tried for this time
--        {WAIT, now, remaining us}             another load is running; `C <resource>` to the inbox tells its end
--        {LEASED, now, v}                      the token is current; v is an expired value or nil
--        {BYPASS, now, id, xid, ...}           a writer is committing: load, don't fill; intents older than 2 s. Or the
--                                              value could not be stored lately: nobody waits to load it
-- Messages: `E <epoch>` to the channel, if the epoch was lost
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local now_text = string.format('%.0f', now)

local intents = own_call('HGETALL', KEYS[2])
if #intents > 0 then
  local reply, announced = {'BYPASS', now_text}, false
  for i = 1, #intents, 2 do
    local xid, started = string.match(intents[i + 1], '^(%d+) (%d+)$')
    if not xid then
      -- No writer of a cache adds such an intent, and without a transaction id nobody could end it.
      redis.call('HDEL', KEYS[2], intents[i])
    else
      announced = true
      if tonumber(started) + 2000000 < now then
        reply[#reply + 1] = intents[i]
        reply[#reply + 1] = xid
      end
    end
  end
  if announced then
    return reply
  end
end

local s = ':' .. ARGV[8]
local e = own_call('HMGET', KEYS[1], 'v' .. s, 'tok' .. s, 'tokx' .. s, 'tokc' .. s, 'hold' .. s, 'fails' .. s,
  'free' .. s)
local v, tok, tokx, tokc, hold, fails, free = unpack(e)
local current = epoch_now(KEYS[5], ARGV[9], ARGV[10], now)
local stored = v
local exp, at, epoch, stamp, tags = string.match(v or '', '^(%d+) (%d+) (%d+) (%d+ %d+) %l+ %S+ %d+\n(.-)\n\n')
if not exp or tonumber(at) > now + 1000000 then
  -- A value from the future was loaded before the clock was set back, which would prolong its life.
  v = false
elseif epoch ~= current or tags ~= '' and not tags_hold(KEYS[4], ARGV[7], stamp, tags) then
  -- An invalid value counts as dropped, together with its hold.
  v, hold = false, false
end
local outdated = stored and not v
if ARGV[4] == 'miss' and v and tonumber(exp) > now then
  return {'HIT', now_text, v}
end
-- A refresh is for a value that is past half of its life. Of one that is not, somebody else was faster.
if ARGV[4] == 'early' and ARGV[5] == '1' and v and (at + exp) / 2 > now then
  return {'HIT', now_text, v}
end

-- More than this second can be left only if the server's clock was set back.
local unleased = (tonumber(free) or 0) - now
if unleased > 0 and unleased <= 1000000 then
  return {'BYPASS', now_text}
end

-- More than a whole hold can be left only if the server's clock was set back.
local held = (tonumber(hold) or 0) - now
if held > 0 and held <= ARGV[6] * 1000 then
  if ARGV[5] == '1' or (ARGV[4] == 'miss' and v) then
    return {'HELD', now_text, v}
  end
  if (tonumber(fails) or 0) > 1 then
    return {'FAILING', now_text, string.format('%.0f', held)}
  end
end

local lease = tonumber(ARGV[2])
-- A load from before a clear is not waited for, since its value will not be stored.
local left = tok and tokc == current and (tonumber(tokx) or 0) - now or 0
-- More than a lease can be left only if the server's clock was set back. Such a load is not waited for either.
if left > 0 and left <= lease * 1000 + 1000000 then
  redis.call('HSET', KEYS[1], 'w' .. s .. ':' .. ARGV[3], '1')
  return {'WAIT', now_text, string.format('%.0f', left)}
end

-- The new token's stamp is kept next to that of the present value, which may be served until the load ends.
local table_epoch, newest = tags_now(KEYS[4], ARGV[7], ARGV[1])
redis.call('HSET', KEYS[1], 'tok' .. s, ARGV[1], 'tokx' .. s, string.format('%.0f', now + lease * 1000),
  'tokt' .. s, string.format('%.0f %.0f', table_epoch, newest), 'tokc' .. s, current)
if outdated then
  -- Else it would end the hold of this load, too, should the load fail.
  redis.call('HDEL', KEYS[1], 'v' .. s, 'exp' .. s, 'hold' .. s, 'fails' .. s)
end
if redis.call('PTTL', KEYS[1]) < lease + 1000 then
  redis.call('PEXPIRE', KEYS[1], lease + 1000)
end
return {'LEASED', now_text, v}
