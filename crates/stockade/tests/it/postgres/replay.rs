//! A strict cache with many commits, whose Redis comes back without what it knew.

use std::time::Duration;

use stockade::cache::Source;
use stockade_testbed::{Fault, Proxy};

use super::{
    Sku,
    cached::{World, online},
    until,
};

/// One by one, with the delay of the test, their intents would take longer to end than a round of the relay may take.
const COMMITS: i64 = 1_500;

#[tokio::test]
async fn a_strict_cache_with_more_commits_than_a_round_ends_one_by_one_is_vouched_for() {
    const COMMITTED: &str = "insert into stockade.outbox (cache, resource, intent, applied_at)
        select 'stock', 'stock:' || n, 'intent ' || n, clock_timestamp() from generate_series(1, $1) n";
    let world = World::patient().await;
    let proxy = Proxy::start(world.redis.addr()).await.unwrap();
    let cache = online(world.at(&proxy.url_for(&world.redis.url())).await.strict(&world.pool)).await;
    world.vouched(&cache).await;
    sqlx::query(COMMITTED).bind(COMMITS).execute(&world.pool).await.unwrap();
    proxy.set(Fault::Delay(Duration::from_millis(20)));
    world.redis.restart().await.unwrap();
    // A new run is vouched for before the limit of `until`.
    until(async || cache.get(&Sku("a")).await.unwrap().info.source == Source::Redis).await;
    proxy.set(Fault::None);
    world.end_behind(proxy).await;
}
