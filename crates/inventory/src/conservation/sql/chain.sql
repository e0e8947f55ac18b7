select sku || ': movement ' || id || ' leaves ' || quantity || ' instead of ' || before + delta
from (select *, lag(quantity, 1, 0::bigint) over (partition by sku order by id) as before from movement)
    as step
where quantity <> before + delta
order by 1
