-- Names those commands that the user may not run.
-- KEYS: none. ARGV: commands, each `NAME` or `NAME SUBCOMMAND`.
-- Reply: the ones that are not allowed; none from servers before 7.0, which can't tell.
local denied = {}
if redis.acl_check_cmd then
  for _, command in ipairs(ARGV) do
    local name, second = string.match(command, '^(%S+) ?(%S*)$')
    local allowed
    if second == '' then
      allowed = redis.acl_check_cmd(name)
    else
      allowed = redis.acl_check_cmd(name, second)
    end
    if not allowed then
      denied[#denied + 1] = command
    end
  end
end
return denied
