//! Large values, of which many are read at once.

use std::time::Duration;

use stockade::{Cache, Redis, cache::Source};
use tokio::task::JoinSet;

use super::support::{Sku, eventually, sku};
use crate::world::{World, cached, patient};

/// The default of `max_value`, with its quotes.
const SIZE: usize = 1 << 20;

async fn values(redis: &Redis) -> Cache<Sku, String> {
    let builder = Cache::builder(redis).load_timeout(Duration::from_secs(60));
    let values = cached(builder.loader(async |_: Sku| Ok::<_, std::io::Error>(Some("x".repeat(SIZE - 2)))).build());
    eventually("the cache is on line", || async { !values.is_degraded() }).await;
    values
}

/// The connection that reads also subscribes: Redis closes it when 32 MiB of its replies wait to be sent.
#[tokio::test]
async fn a_crowd_of_reads_of_the_largest_values_leaves_redis_its_connection() {
    let server = World::start().await;
    let redis = || async { patient(&server.url()).await.namespace("shop") };
    let writer = values(&redis().await).await;
    let keys: Vec<_> = (0..64).map(|number| sku(&number.to_string())).collect();
    for key in &keys {
        assert!(writer.get(key).await.unwrap().info.stored);
    }
    // This one learns only from what it reads how large the values are.
    let reader = values(&redis().await).await;
    let mut reads = JoinSet::new();
    for key in keys.iter().cycle().take(256) {
        let (reader, key) = (reader.clone(), key.clone());
        reads.spawn(async move { reader.get(&key).await });
    }
    let found = reads.join_all().await.into_iter().chain(reader.get_many(&keys).await);
    let sources: Vec<_> = found.map(|found| found.unwrap().info.source).collect();
    assert_eq!(sources, [Source::Redis; 256 + 64]);
    server.end().await;
}
