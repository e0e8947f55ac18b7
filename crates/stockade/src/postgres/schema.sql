-- All tables and functions that fences and invalidations need in Postgres. The script may run again.
-- `postgres::install` runs it under an advisory lock, so instances that start at the same time take turns.

create schema if not exists stockade;

-- One row. A new version takes no table, column or function away, so an older library works with a newer schema. If it
-- takes an index away, the older library is slower.
create table if not exists stockade.schema_version (
    only_row boolean primary key default true check (only_row),
    version  integer not null
);

-- A fencing token. The check belongs to a domain, because the server prepares a column's own check again for each
-- statement, which is a tenth of the work of a claim. Tables of an older version keep the check of their column.
do $$ begin
    create domain stockade.token as bigint check (value between 0 and 9007199254740991);
exception when duplicate_object then null;
end $$;

-- The highest fencing token that was claimed for each resource, and its owner. After a failover that lost writes, two
-- owners can have the same token, so token and owner are compared together, never the token alone. The collation makes
-- the key independent of the operating system's locale. Every claim updates a row: the fill factor leaves room in each
-- page, so that the update needs no new index entry.
create table if not exists stockade.fence (
    resource text collate "C" primary key,
    token    stockade.token not null,
    owner    text not null
) with (fillfactor = 70);

-- One row, the floor. A token at or below the floor is refused for a resource without a row, so old rows may be
-- deleted. `settled_at` is the time from which every statement that starts sees the present floor. It is null while the
-- floor is being raised.
create table if not exists stockade.fence_floor (
    only_row   boolean primary key default true check (only_row),
    token      stockade.token not null,
    settled_at timestamptz
);

insert into stockade.fence_floor (token, settled_at) values (0, clock_timestamp()) on conflict do nothing;

-- Invalidations of a key, or of a tag if `resource` begins with `#`. The transaction that changes the data writes them.
-- The relay applies the invalidations that the committer could not apply. Applied rows are kept for ten minutes, to
-- repeat them for a Redis that lost its newest writes.
create table if not exists stockade.outbox (
    id         bigint generated always as identity primary key,
    cache      text not null,
    resource   text not null,
    created_at timestamptz not null default clock_timestamp(),
    applied_at timestamptz
);

-- The name of the intent, for a strict cache. The relay ends the intent when it applies the row.
alter table stockade.outbox add column if not exists intent text;

-- How often a cache refused the row, and when the relay tries it again.
alter table stockade.outbox add column if not exists attempts integer not null default 0,
    add column if not exists retry_at timestamptz;

-- Rows that are marked as applied together become one row, and this column lists their resources. The `resource` of
-- such a row is `#`, the whole cache. An older library, which does not read this column, then drops more than
-- necessary.
alter table stockade.outbox add column if not exists resources text[];

create index if not exists outbox_refused on stockade.outbox (cache) where applied_at is null and attempts > 0;
-- A relay asks for the rows of one cache, however many of others wait. It asks in the order of time, because in the order
-- of ids the server would look for them among all rows.
create index if not exists outbox_waiting on stockade.outbox (cache, created_at) where applied_at is null;
-- An index of older versions. Asked for first, since the server's note that it is not there would be in the log.
do $$ begin
    if to_regclass('stockade.outbox_pending') is not null then drop index stockade.outbox_pending; end if;
end $$;
create index if not exists outbox_applied on stockade.outbox (applied_at) where applied_at is not null;

-- When a relay of any process last served a cache.
create table if not exists stockade.relay (
    cache   text primary key,
    seen_at timestamptz not null
) with (fillfactor = 50);

-- The statements with which a transaction begins and ends, as functions. They are sent in one message with BEGIN and
-- with COMMIT. Statements of such a message cannot be prepared, but a session keeps the plans of a function. The
-- parameters have no names, because a name could be taken for a column.

-- The claim, `Fence::CLAIM_SQL`. The library does not read the rows of its message, so a refusal is an error.
create or replace function stockade.claim(text, bigint, text) returns void language plpgsql as $$
declare
    claimed bigint;
begin
    insert into stockade.fence as f (resource, token, owner)
select $1, $2::bigint, $3 where $2::bigint > (select token from stockade.fence_floor)
on conflict (resource) do update set token = excluded.token, owner = excluded.owner
where f.token < excluded.token or (f.token = excluded.token and f.owner = excluded.owner)
returning f.token into claimed;
    if claimed is null then
        raise exception using errcode = 'ST001', message = 'a newer claim of this resource was seen: nothing was applied';
    end if;
end
$$;

-- A shared ownership checks that no newer claim exists, instead of claiming. A row with its own token and owner is no
-- newer claim: the ownership claimed it before it was downgraded.
create or replace function stockade.check_claims(text, bigint, text) returns void language plpgsql as $$
begin
    if $2 <= greatest(
        (select f.token from stockade.fence f where f.resource = $1 and (f.token, f.owner) <> ($2, $3)),
        (select floor.token from stockade.fence_floor floor),
        0)
    then
        raise exception using errcode = 'ST001', message = 'a newer claim of this resource was seen: nothing was applied';
    end if;
end
$$;

-- Writes the invalidations of these resources of these caches. Returns the ids of the rows, with the cache of each.
create or replace function stockade.write_down(text[], text[]) returns table (row_id bigint, row_cache text)
language plpgsql as $$
begin
    return query insert into stockade.outbox as o (cache, resource) select * from unnest($1, $2) returning o.id, o.cache;
end
$$;

-- Writes one invalidation, as most transactions do, and returns the id of the row. A scalar costs the server much less
-- than a set.
create or replace function stockade.write_down_one(text, text) returns bigint language plpgsql as $$
declare
    row_id bigint;
begin
    insert into stockade.outbox as o (cache, resource) values ($1, $2) returning o.id into row_id;
    return row_id;
end
$$;

-- A database may have a higher version, of a newer library. That version stays.
insert into stockade.schema_version (version) values (9)
on conflict (only_row) do update set version = greatest(schema_version.version, excluded.version);
