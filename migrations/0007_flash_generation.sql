-- Under which counter of its sale a reservation was decided. What was rejected under one is decided again under a later
-- one: its client was told that it has the units then.
alter table flash_reservation add column generation bigint not null default 0;
