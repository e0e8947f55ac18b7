select 'flash sales of ' || sku || ': movements ' || coalesce(moved, 0) || ', sales ' || coalesce(held, 0)
from (select sku, sum(delta) as moved from movement where kind = 'flash' group by sku) as ledger
full join (
    select sku, -sum(case when closed_at is null then opened else stored end) as held
    from flash_sale group by sku
) as sales using (sku)
where coalesce(moved, 0) <> coalesce(held, 0)
union all
select 'flash sale ' || id || ': stored ' || stored || ', reservations ' || coalesce(units, 0)
from flash_sale
left join (select sale, sum(quantity) as units from flash_reservation where stored group by sale) as of_sale
    on sale = id
where stored <> coalesce(units, 0)
order by 1
