-- What is on hand, one row per SKU.
--
-- The collation is "C" so that a list ordered by SKU can be read from the primary key, and so that its pages do not depend
-- on the locale of the server. A SKU is any text of 1 to 64 characters without control characters; the service checks that
-- before it comes here, the checks below are the last guard for everybody else.
--
-- Versions come from one sequence for the whole table, not from a counter per row: a counter would start again when a SKU
-- is deleted and created anew, and an ETag seen before the deletion would then match a different state. Numbers taken by a
-- transaction that rolled back leave gaps, which is fine: a version only has to differ and to grow.
create sequence stock_version;

create table stock (
    sku        text collate "C" primary key
               constraint stock_sku_length check (char_length(sku) between 1 and 64),
    quantity   bigint not null
               constraint stock_quantity_range check (quantity between 0 and 1000000000),
    version    bigint not null default nextval('stock_version'),
    updated_at timestamptz not null default now()
);

alter sequence stock_version owned by stock.version;
