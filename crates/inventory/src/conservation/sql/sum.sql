select sku || ': quantity ' || coalesce(stock.quantity::text, 'none') || ', sum ' || coalesce(total, 0)
from stock full join (select sku, sum(delta) as total from movement group by sku) as ledger using (sku)
where coalesce(stock.quantity, 0) <> coalesce(total, 0)
order by 1
