-- Names those commands that the user may not run with the keys and channels of a namespace.
-- KEYS: none. ARGV: a key, which is not touched; a channel; commands, each `NAME` or `NAME SUBCOMMAND`.
-- Reply: the commands that are not allowed, or the key alone; nothing from servers before 7.0, which can't tell.
local denied = {}
if redis.acl_check_cmd then
  if redis.acl_check_cmd('GET') and not redis.acl_check_cmd('GET', ARGV[1]) then
    return { ARGV[1] }
  end
  for i = 3, #ARGV do
    local name, second = string.match(ARGV[i], '^(%S+) ?(%S*)$')
    local allowed
    if second ~= '' then
      allowed = redis.acl_check_cmd(name, second, ARGV[2])
    elseif string.find(name, 'PUBLISH') then
      allowed = redis.acl_check_cmd(name, ARGV[2], '')
    else
      -- Twice, since the rights that SET needs depend on what comes behind the key.
      allowed = redis.acl_check_cmd(name, ARGV[1], ARGV[1])
    end
    if not allowed then
      denied[#denied + 1] = ARGV[i]
    end
  end
end
return denied
