-- Movements of one transaction have the same time. If two transactions have it, their sum is still zero.
select 'at ' || created_at || ': ' || count(*) || ' movements, sum ' || sum(delta)
from movement where kind = 'transfer'
group by created_at
having sum(delta) <> 0
order by 1
