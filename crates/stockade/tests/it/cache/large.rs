//! Large values, of which many are read at once.

use std::time::Duration;

use stockade::{Cache, cache::Source};
use tokio::task::JoinSet;

use super::support::{Sku, eventually, sku};
use crate::world::{World, cached, patient};

/// The default of `max_value`, with its quotes.
const SIZE: usize = 1 << 20;

#[tokio::test]
async fn with_the_output_buffer_of_the_documentation_the_largest_values_are_read_at_once() {
    let server = World::start().await;
    // The connection that reads also subscribes. With the default of Redis, 32 such reads at once end it.
    let room = ["CONFIG", "SET", "client-output-buffer-limit", "pubsub 300mb 0 0"];
    server.command(&room).await.unwrap();
    let values = cached(
        Cache::builder(&patient(&server.url()).await.namespace("shop"))
            .load_timeout(Duration::from_secs(60))
            .loader(async |_: Sku| Ok::<_, std::io::Error>(Some("x".repeat(SIZE - 2))))
            .build(),
    );
    eventually("the cache is on line", || async { !values.is_degraded() }).await;
    let keys: Vec<_> = (0..64).map(|number| sku(&number.to_string())).collect();
    for key in &keys {
        assert!(values.get(key).await.unwrap().info.stored);
    }
    let mut reads = JoinSet::new();
    for key in keys.clone() {
        let values = values.clone();
        reads.spawn(async move { values.get(&key).await });
    }
    let found = reads.join_all().await.into_iter().chain(values.get_many(&keys).await);
    for found in found {
        assert_eq!(found.unwrap().info.source, Source::Redis);
    }
    server.end().await;
}
