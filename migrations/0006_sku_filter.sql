-- Whether instances ask a filter of the SKUs that exist. There is a row from before the filter was built for the first
-- time. From then on every transaction that creates a SKU has to add it to the filter before it commits.
create table sku_filter (
    only_row boolean not null primary key default true check (only_row)
);
