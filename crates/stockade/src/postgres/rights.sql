grant usage on schema stockade to shop;
grant execute on all functions in schema stockade to shop;
grant select on stockade.schema_version to shop;
grant select, insert, update, delete on stockade.fence, stockade.outbox to shop;
grant select, update on stockade.fence_floor to shop; -- update: only for `prune_floor`
grant select, insert, update on stockade.relay to shop;
