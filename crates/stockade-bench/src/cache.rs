use std::{convert::Infallible, sync::Arc};

use cached::{AsyncRedisCache, ConcurrentCachedAsync};
use redis::aio::MultiplexedConnection;
use stockade::{Cache, Redis, cache::Source};
use stockade_testbed::RedisServer;

use crate::{
    contender::{Contender, Failure},
    hits::{hit, warm},
    page::{Page, Text},
};

/// A bare GET without decoding, a hit of a library, and hits of Stockade in Redis and in the process; each task reads a
/// key of its own.
pub(crate) async fn contenders(server: &RedisServer) -> Result<Vec<Contender>, Failure> {
    let connection = redis::Client::open(server.url())?.get_multiplexed_async_connection().await?;
    for task in 0..64 {
        let key = format!("bare-page:{task}");
        redis::cmd("SET").arg(key).arg("x".repeat(256)).exec_async(&mut connection.clone()).await?;
    }
    let load = |_: Page| async { Ok::<_, Infallible>(Some(Text::default())) };
    let peer = AsyncRedisCache::<u32, Text>::builder("peer").connection_string(&server.url()).build().await?;
    for task in 0..64 {
        peer.async_cache_set(task, Text::default()).await?;
    }
    let redis = Redis::connect(server.url()).await?;
    let remote = Arc::new(Cache::builder(&redis).name("remote").loader(load).build());
    let local = Arc::new(Cache::builder(&redis).name("local").local(1 << 20).loader(load).build());
    for task in 0..64 {
        warm(&remote, &Page(task), Source::Redis).await?;
        warm(&local, &Page(task), Source::Local).await?;
    }
    Ok(vec![
        Contender::new("GET of 256 bytes", move |task| get(connection.clone(), task)),
        Contender::new("cached, hit in Redis", move |task| peer_read(peer.clone(), task)),
        Contender::new("stockade, hit in Redis", move |task| read(Arc::clone(&remote), task, Source::Redis)),
        Contender::new("stockade, hit in the process", move |task| read(Arc::clone(&local), task, Source::Local)),
    ])
}

async fn get(mut connection: MultiplexedConnection, task: u32) -> Result<(), Failure> {
    let value: Vec<u8> = redis::cmd("GET").arg(format!("bare-page:{task}")).query_async(&mut connection).await?;
    if value.len() == 256 { Ok(()) } else { Err("the bare value is missing".into()) }
}

async fn read(cache: Arc<Cache<Page, Text>>, task: u32, source: Source) -> Result<(), Failure> {
    hit(&cache, &Page(task), source).await
}

async fn peer_read(cache: AsyncRedisCache<u32, Text>, task: u32) -> Result<(), Failure> {
    let found = cache.async_cache_get(&task).await?;
    if found.is_some() { Ok(()) } else { Err("the value of the peer is missing".into()) }
}
