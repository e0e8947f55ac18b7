-- Everything that fences and invalidations need in Postgres. Safe to run again; `postgres::install` runs it under an
-- advisory lock, so that instances which start together do not collide.

create schema if not exists stockade;

-- One row. Versions only add: a newer schema serves an older library.
create table if not exists stockade.schema_version (
    only_row boolean primary key default true check (only_row),
    version  integer not null
);

-- The highest fencing token seen for each resource, and whose it was. Two owners can carry the same token after a
-- failover that lost writes, so the pair is compared, never the token alone. The collation makes the key independent of
-- the operating system's locale. Every claim updates a row in place: the spare room keeps those updates off the index.
create table if not exists stockade.fence (
    resource text collate "C" primary key,
    token    bigint not null check (token between 0 and 9007199254740991),
    owner    text not null
) with (fillfactor = 70);

-- One row. Tokens at or below it are refused for resources without a row, which is what allows rows to be deleted.
-- `settled_at` is when the present floor was surely visible to every statement that started; null while it is raised.
create table if not exists stockade.fence_floor (
    only_row   boolean primary key default true check (only_row),
    token      bigint not null check (token between 0 and 9007199254740991),
    settled_at timestamptz
);

insert into stockade.fence_floor (token, settled_at) values (0, clock_timestamp()) on conflict do nothing;

-- Invalidations, written in the transaction that makes them necessary: of one key, or with `#` before it of a tag. The
-- relay applies what the committer could not, and keeps what was applied for a while: a cache that lost its newest writes is
-- brought up to date from it.
create table if not exists stockade.outbox (
    id         bigint generated always as identity primary key,
    cache      text not null,
    resource   text not null,
    created_at timestamptz not null default clock_timestamp(),
    applied_at timestamptz
);

-- For a strict cache the name under which the write was announced, which the relay ends as well.
alter table stockade.outbox add column if not exists intent text;

-- How often a cache refused the row, and when it is tried again.
alter table stockade.outbox add column if not exists attempts integer not null default 0,
    add column if not exists retry_at timestamptz;

-- What a row that was applied stands for, where that is more than one invalidation: rows that are marked together become one.
-- Its `resource` is `#`, the whole cache, which an older library reads in place of this column: it drops more than it has to.
alter table stockade.outbox add column if not exists resources text[];

create index if not exists outbox_refused on stockade.outbox (cache) where applied_at is null and attempts > 0;
create index if not exists outbox_pending on stockade.outbox (id) where applied_at is null;
create index if not exists outbox_applied on stockade.outbox (applied_at) where applied_at is not null;

-- When a relay was last there for a cache, by whichever process.
create table if not exists stockade.relay (
    cache   text primary key,
    seen_at timestamptz not null
) with (fillfactor = 50);

-- What a transaction begins and ends with, as functions: they go in one message with BEGIN and with COMMIT, where no statement
-- can be prepared, and a session keeps the plans of a function. Their parameters have no names, which could be taken for
-- columns.

-- The claim, `Fence::CLAIM_SQL`. Nobody reads rows of the message that it goes in, so a refusal is an error.
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

-- What a shared ownership asks in place of a claim: whether any other one is newer. The claim of the shared ownership itself
-- is no newer writer's: it was made before a downgrade.
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

-- Invalidations of these caches and resources. The rows, with the cache of each.
create or replace function stockade.write_down(text[], text[]) returns table (row_id bigint, row_cache text)
language plpgsql as $$
begin
    return query insert into stockade.outbox as o (cache, resource) select * from unnest($1, $2) returning o.id, o.cache;
end
$$;

-- The same of one invalidation, which is what most transactions make: a scalar costs the server a good deal less than a
-- set. The row.
create or replace function stockade.write_down_one(text, text) returns bigint language plpgsql as $$
declare
    row_id bigint;
begin
    insert into stockade.outbox as o (cache, resource) values ($1, $2) returning o.id into row_id;
    return row_id;
end
$$;

-- Version 6 was never released, but there may be a database that says so.
insert into stockade.schema_version (version) values (8)
on conflict (only_row) do update set version = greatest(schema_version.version, excluded.version);
