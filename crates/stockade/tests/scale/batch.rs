//! Calls of a cache with more keys than a connection takes at once.

use std::{collections::BTreeMap, convert::Infallible, time::Duration};

use futures_util::stream;
use stockade::{
    Cache, Redis,
    cache::{CacheError, Lookup},
};
use stockade_testbed::RedisServer;
use tokio::time::Instant;

use crate::support::{Item, report, turn, until};

const KEYS: usize = 10_000;

/// How many answers there are of each kind.
fn kinds(found: Vec<Result<Lookup<u64>, CacheError>>) -> BTreeMap<String, usize> {
    let mut kinds = BTreeMap::new();
    for answer in found {
        let kind = match answer {
            Ok(Lookup { info, .. }) if info.degraded => format!("{:?}, degraded", info.source),
            Ok(Lookup { info, .. }) => format!("{:?}", info.source),
            Err(error) => error.to_string(),
        };
        *kinds.entry(kind).or_default() += 1;
    }
    kinds
}

fn all(kind: &str) -> BTreeMap<String, usize> {
    BTreeMap::from([(kind.to_owned(), KEYS)])
}

/// Uses the default settings: the cache uses no answer to a question that is older than three seconds, and waits no
/// longer than the time-out of a command. A debug build on a starved machine is too slow for 20,000 keys.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_keys_are_warmed_read_and_invalidated_by_one_call_each() {
    let _turn = turn().await;
    let server = RedisServer::start().await.unwrap();
    let redis = Redis::builder(server.url()).allow_eviction().connect().await.unwrap();
    let keys: Vec<_> = (0..KEYS).map(|number| Item(number.to_string())).collect();
    let cache = Cache::builder(&redis)
        .loader(|_: Item| async { Ok::<_, Infallible>(Some(7_u64)) })
        .batch_loader(|keys: Vec<Item>| async move {
            Ok::<_, Infallible>(keys.into_iter().map(|key| (key, Some(7))).collect::<Vec<_>>())
        })
        .build();
    until("the cache is on line", async || !cache.is_degraded()).await;
    let began = Instant::now();
    let warmed = cache.warm(stream::iter(keys.clone())).within(Duration::from_secs(120)).run().await;
    assert_eq!(warmed.loaded, KEYS as u64, "{warmed:?}");
    assert_eq!(kinds(cache.get_many(&keys).await), all("Redis"));
    let names: Vec<_> = keys.iter().map(|key| cache.key(key).unwrap()).collect();
    cache.invalidator().invalidate(&names).await.unwrap();
    assert_eq!(kinds(cache.get_many(&keys).await), all("Load"));
    report(&format!("{KEYS} keys warmed, read, invalidated and loaded again: {:?}", began.elapsed()));
    cache.shutdown(Duration::from_secs(5)).await;
}
