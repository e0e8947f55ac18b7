-- The run of this server as the primary. It differs after each restart and after each promotion. The run id alone names
-- only the process. A primary that follows its successor for a while and is promoted again has its old run id, but the
-- data of its successor, which may lack some of its own data. Its replication id has changed.
local function current_run()
  local info = redis.call('INFO', 'server', 'replication')
  return string.match(info, 'run_id:(%x+)') .. '-' .. string.match(info, 'master_replid:(%x+)')
end

