-- Flash sales: units that left stock to be reserved by one script in Redis, and the reservations that came out of it.
--
-- Redis decides who gets a reservation, this table decides whether that was true: what is stored for a sale never exceeds
-- what was opened, whatever a Redis that lost its data believed. A sale is named by its id, which never comes again: a
-- reservation of an earlier sale of the same SKU can't be taken for one of this.
--
-- The generation counts how often the counter in Redis was made from this table. A reservation made under an earlier
-- counter is not stored once a later one was made: its units may have been given to somebody else.
create table flash_sale (
    id           bigint generated always as identity primary key,
    sku          text collate "C" not null,
    opened       bigint not null
                 constraint flash_sale_opened_range check (opened between 1 and 1000000000),
    per_customer bigint not null
                 constraint flash_sale_per_customer_range check (per_customer between 1 and 1000000000),
    ends_at      timestamptz not null,
    generation   bigint not null default 0,
    stored       bigint not null default 0
                 constraint flash_sale_never_oversold check (stored between 0 and opened),
    closing      boolean not null default false,
    opened_at    timestamptz not null default now(),
    closed_at    timestamptz
);

comment on column flash_sale.stored is 'Units of the reservations that are stored. The rest goes back to stock at the end.';

create unique index flash_sale_one_open on flash_sale (sku) where closed_at is null;
create index flash_sale_by_sku on flash_sale (sku, id);

create table flash_reservation (
    id         text collate "C" primary key,
    sale       bigint not null references flash_sale,
    customer   text not null
               constraint flash_reservation_customer_length check (char_length(customer) between 1 and 64),
    quantity   bigint not null
               constraint flash_reservation_quantity_range check (quantity between 1 and 1000000000),
    stored     boolean not null,
    created_at timestamptz not null default now()
);

comment on column flash_reservation.stored is 'False: it was rejected, because its units were not there any more.';

create index flash_reservation_by_sale on flash_reservation (sale);

-- Entries of the stream that can't be stored however often it is tried. The service keeps the newest of them.
create table flash_dead_letter (
    id          bigint generated always as identity primary key,
    sku         text collate "C" not null,
    entry       text not null,
    reservation text collate "C",
    fields      text not null,
    error       text not null,
    created_at  timestamptz not null default now(),
    constraint flash_dead_letter_once unique (sku, entry)
);

create index flash_dead_letter_by_reservation on flash_dead_letter (reservation);

-- The rows that are there obeyed the narrower rule, so they need not be read again.
alter table movement
    drop constraint movement_kind,
    add constraint movement_kind
        check (kind in ('seed', 'set', 'adjustment', 'delete', 'transfer', 'flash')) not valid;
