-- The run of this server: another one after each restart and on each promoted replica.
local function current_run()
  return string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
end

