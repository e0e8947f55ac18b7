-- The run of this server as the primary: another one after each restart and after each promotion. The run id alone is that
-- of the process. A primary that follows its successor for a while and is promoted again has the run id of before, and the
-- data of its successor, which may lack what this process had; its replication id is another one.
local function current_run()
  local info = redis.call('INFO', 'server', 'replication')
  return string.match(info, 'run_id:(%x+)') .. '-' .. string.match(info, 'master_replid:(%x+)')
end

