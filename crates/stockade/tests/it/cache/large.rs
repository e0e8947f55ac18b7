//! Large values, of which many are read at once.

use std::time::Duration;

use stockade::{Cache, Redis, cache::Source};
use tokio::task::JoinSet;

use super::support::{Sku, eventually, sku};
use crate::world::{World, online, patient};

/// The default of `max_value`, with its quotes.
const SIZE: usize = 1 << 20;

/// Values of which those of `small-…` are small.
async fn values(redis: &Redis) -> Cache<Sku, String> {
    let load = async |Sku(sku): Sku| {
        let size = if sku.starts_with("small-") { 10 } else { SIZE - 2 };
        Ok::<_, std::io::Error>(Some("x".repeat(size)))
    };
    online(Cache::builder(redis).load_timeout(Duration::from_secs(60)).loader(load)).await
}

fn skus(prefix: &str) -> Vec<Sku> {
    (0..64).map(|number| sku(&format!("{prefix}{number}"))).collect()
}

/// Reads so many times at once, and returns where the values came from.
async fn crowd(values: &Cache<Sku, String>, keys: &[Sku], times: usize) -> Vec<Source> {
    let mut reads = JoinSet::new();
    for key in keys.iter().cycle().take(times) {
        let (values, key) = (values.clone(), key.clone());
        reads.spawn(async move { values.get(&key).await.unwrap().info.source });
    }
    reads.join_all().await
}

/// The connection that reads also subscribes: Redis closes it when 32 MiB of its replies wait to be sent.
#[tokio::test]
async fn a_crowd_of_reads_of_the_largest_values_leaves_redis_its_connection() {
    let server = World::start().await;
    let redis = || async { patient(&server.url()).await.namespace("shop") };
    let writer = values(&redis().await).await;
    for key in skus("") {
        assert!(writer.get(&key).await.unwrap().info.stored);
    }
    // This one learns only from what it reads how large the values are.
    let reader = values(&redis().await).await;
    assert_eq!(crowd(&reader, &skus(""), 256).await, [Source::Redis; 256]);
    for found in reader.get_many(&skus("")).await {
        assert_eq!(found.unwrap().info.source, Source::Redis);
    }
    server.end().await;
}

#[tokio::test]
async fn a_cache_that_has_stored_large_values_expects_them_behind_a_crowd_of_small_ones() {
    let server = World::start().await;
    let values = values(&patient(&server.url()).await.namespace("shop")).await;
    for key in skus("").iter().chain(&skus("small-")) {
        assert!(values.get(key).await.unwrap().info.stored);
    }
    for connection in ["its first connection", "a later one"] {
        // Widens the window as far as it goes.
        for _ in 0..4 {
            assert_eq!(crowd(&values, &skus("small-"), 256).await, [Source::Redis; 256]);
        }
        assert_eq!(crowd(&values, &skus(""), 256).await, [Source::Redis; 256], "{connection}");
        server.command(&["CLIENT", "KILL", "TYPE", "pubsub"]).await.unwrap();
        eventually("it reads from Redis again", || async {
            values.get(&sku("small-0")).await.unwrap().info.source == Source::Redis
        })
        .await;
    }
    server.end().await;
}
