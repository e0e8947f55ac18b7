select sku || ': quantity ' || quantity from stock where quantity < 0
union all
select sku || ': quantity ' || quantity || ' after movement ' || id from movement where quantity < 0
order by 1
