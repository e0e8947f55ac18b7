-- The ledger: every change of a quantity, exactly once, written in the transaction that changed it.
--
-- For every SKU the sum of its movements is its quantity, through deletion and creation anew: setting a quantity records
-- the difference, and deleting a SKU records what was left, negative. Hence no foreign key to stock: the ledger outlives
-- the row. A change by nothing is no movement.
--
-- The ids of one SKU follow the order of its changes, because a change is made under the lock and the fence of its SKU.
-- Over several SKUs they do not: an identity is drawn at the insert, not at the commit.
create table movement (
    id            bigint generated always as identity primary key,
    sku           text collate "C" not null,
    kind          text not null
                  constraint movement_kind check (kind in ('seed', 'set', 'adjustment', 'delete')),
    delta         bigint not null
                  constraint movement_delta_not_zero check (delta <> 0),
    quantity      bigint not null
                  constraint movement_quantity_range check (quantity between 0 and 1000000000),
    version       bigint not null,
    reference     text
                  constraint movement_reference_length check (char_length(reference) between 1 and 200),
    fencing_token bigint,
    created_at    timestamptz not null default now()
);

comment on column movement.quantity is 'What was on hand after the movement.';
comment on column movement.fencing_token is 'The token of the ownership it was written under; null for a seed.';

create index movement_by_sku on movement (sku, id);
