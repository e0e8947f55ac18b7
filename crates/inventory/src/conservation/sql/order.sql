select sku || ': movement ' || id || ' has version ' || version || ' after ' || version_before
    || ', token ' || coalesce(fencing_token::text, 'none') || ' after '
    || coalesce(token_before::text, 'none')
from (
    select *, lag(version) over of_sku as version_before, max(fencing_token) over earlier as token_before
    from movement
    window of_sku as (partition by sku order by id),
           earlier as (partition by sku order by id rows between unbounded preceding and 1 preceding)
) as step
where version <= version_before or fencing_token < token_before
order by 1
