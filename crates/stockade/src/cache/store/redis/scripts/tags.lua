-- Part of lease.lua, fill.lua and invalidate_tag.lua, after own.lua: the table of tags.
--
-- T (sorted set) is one key for the whole cache, so that it is lost as a whole or not at all. The score of `t:<tag>` is
-- the stamp of the tag's last invalidation. Stamps grow with each invalidation, whatever the clock shows. The scores of
-- the other members are not positive:
--   e:<run>  minus the epoch, a random number. It tells this table from one that was lost, or that another run of the
--            server left behind: values from before this table are not valid
--   n        minus the newest stamp
--   f        minus the floor: the newest stamp that was deleted
--   h        minus the longest time for which a value with tags may be served, us
--
-- A load notes the epoch and the newest stamp when its lease is given, before it reads. Its value is valid while the
-- epoch is the same, the floor is not above the noted stamp, and no tag of the value has a newer stamp.

-- Returns the epoch and the newest stamp. If there is no table of this run, or one with numbers that no table has, it
-- begins a new table, whose epoch comes from `random`.
local function tags_now(key, run, random)
  local known = own_call('ZMSCORE', key, 'e:' .. run, 'n', 'f', 'h')
  local whole = true
  for i = 1, 4 do
    local score = tonumber(known[i] or 1)
    whole = whole and score <= 0 and score > -9007199254740992 and score % 1 == 0
  end
  if whole then
    -- Subtracted, because a negated zero would be written as `-0`.
    return 0 - known[1], 0 - known[2]
  end
  local epoch = tonumber(string.sub(redis.sha1hex(random), 1, 13), 16) + 1
  redis.call('DEL', key)
  redis.call('ZADD', key, string.format('%.0f', -epoch), 'e:' .. run, '0', 'n', '0', 'f', '0', 'h')
  return epoch, 0
end

-- Whether a value with these tags, loaded under this stamp, is still valid.
local function tags_hold(key, run, stamp, tags)
  local epoch, newest = string.match(stamp or '', '^(%d+) (%d+)$')
  if not epoch then
    return false
  end
  local asked = {'e:' .. run, 'f'}
  for tag in string.gmatch(tags, '[^\n]+') do
    asked[#asked + 1] = 't:' .. tag
  end
  local scores = own_call('ZMSCORE', key, unpack(asked))
  newest = tonumber(newest)
  if not (scores[1] and scores[2]) or 0 - scores[1] ~= tonumber(epoch) or 0 - scores[2] > newest then
    return false
  end
  for i = 3, #asked do
    if scores[i] and tonumber(scores[i]) > newest then
      return false
    end
  end
  return true
end

