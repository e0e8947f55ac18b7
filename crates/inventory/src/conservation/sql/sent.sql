select coalesce(movement.reference, 'no reference') || ' (' || movement.sku || '): ' || movement.delta
from movement
left join unnest($1::text[], $2::text[], $3::bigint[], $4::text[]) as told (reference, sku, delta, outcome)
    using (reference, sku, delta)
where movement.kind = 'adjustment' and told.outcome is null
order by 1
