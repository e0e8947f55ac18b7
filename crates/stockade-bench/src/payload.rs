use std::{convert::Infallible, fmt::Write, sync::Arc};

use redis::aio::MultiplexedConnection;
use serde::{Deserialize, Serialize};
use stockade::{
    Cache, Redis,
    cache::{CacheBuilder, Codec, Compression, Source},
};
use stockade_testbed::RedisServer;

use crate::{
    contender::{Contender, Failure},
    hits::{hit, warm},
    page::Page,
};

#[derive(Serialize, Deserialize)]
struct Row {
    sku: String,
    description: String,
    quantity: u32,
    price: f64,
    updated_at: u64,
}

fn rows(count: u32) -> Vec<Row> {
    const WORDS: [&str; 8] = ["WHITE", "HANGING", "HEART", "LANTERN", "SET", "OF", "RED", "RETROSPOT"];
    let row = |i: u32| {
        let noise = i.wrapping_mul(2_654_435_761);
        let words = (0..4).map(|n| WORDS[(noise >> (n * 5)) as usize % 8]);
        Row {
            sku: format!("{}", 10_000 + noise % 90_000),
            description: words.collect::<Vec<_>>().join(" "),
            quantity: noise % 500,
            price: f64::from(noise % 2000) / 100.0,
            updated_at: 1_700_000_000_000 + u64::from(noise),
        }
    };
    (0..count).map(row).collect()
}

/// Hits of lists of `count` rows in Redis, by codec and compression, and a line that says what is stored.
pub(crate) async fn contenders(server: &RedisServer, count: u32) -> Result<(Vec<Contender>, String), Failure> {
    type Build = fn(CacheBuilder<Page, Vec<Row>>) -> CacheBuilder<Page, Vec<Row>>;
    let ways: [(&'static str, &'static str, Build); 4] = [
        ("JSON", "json", |new| new),
        ("JSON, LZ4", "json-lz4", |new| new.compress(Compression::lz4().above(0))),
        ("MessagePack", "msgpack", |new| new.codec(Codec::MessagePack)),
        ("MessagePack, LZ4", "msgpack-lz4", |new| new.codec(Codec::MessagePack).compress(Compression::lz4().above(0))),
    ];
    let redis = Redis::connect(server.url()).await?;
    let (mut contenders, mut stored) = (Vec::new(), String::from("stored:"));
    for (title, name, build) in ways {
        let namespaced = redis.clone().namespace(&format!("rows-{count}"));
        let builder = Cache::builder(&namespaced).name(name);
        let load = |page: Page| async move { Ok::<_, Infallible>(Some(rows(page.0))) };
        let cache = Arc::new(build(builder).loader(load).build());
        warm(&cache, &Page(count), Source::Redis).await?;
        let key = server.command(&["KEYS", &format!("rows-{count}:*e:{name}:*")]).await?;
        let fields = server.command(&["HKEYS", &key]).await?;
        let field = fields.lines().find(|field| field.starts_with("v:")).ok_or("the value was not stored")?;
        write!(stored, " {title} {} bytes;", server.command(&["HSTRLEN", &key, field]).await?)?;
        contenders.push(Contender::new(title, move |_| {
            let cache = Arc::clone(&cache);
            async move { hit(&cache, &Page(count), Source::Redis).await }
        }));
    }
    Ok((contenders, stored))
}

/// The least that a hit in Redis can be: the value and one field about it, asked for and decoded, without anything
/// around it.
pub(crate) async fn floor(server: &RedisServer) -> Result<Vec<Contender>, Failure> {
    let connection = redis::Client::open(server.url())?.get_multiplexed_async_connection().await?;
    for task in 0..64 {
        let text = serde_json::to_string(&"x".repeat(256))?;
        let mut fields = redis::cmd("HSET");
        fields
            .arg(format!("bare-hash:{task}"))
            .arg("v")
            .arg(text)
            .arg("m")
            .arg("v 1700000000000000 1700000000000000 100");
        fields.exec_async(&mut connection.clone()).await?;
    }
    let redis = Redis::connect(server.url()).await?;
    let load = |_: Page| async { Ok::<_, Infallible>(Some("x".repeat(256))) };
    let cache = Arc::new(Cache::builder(&redis).name("beside-floor").loader(load).build());
    for task in 0..64 {
        warm(&cache, &Page(task), Source::Redis).await?;
    }
    let one = connection.clone();
    Ok(vec![
        Contender::new("HMGET of two fields, decoded", move |task| bare(connection.clone(), task)),
        Contender::new("HGET of one field, decoded", move |task| bare_field(one.clone(), task)),
        Contender::new("stockade, hit in Redis", move |task| {
            let cache = Arc::clone(&cache);
            async move { hit(&cache, &Page(task), Source::Redis).await }
        }),
    ])
}

async fn bare_field(mut connection: MultiplexedConnection, task: u32) -> Result<(), Failure> {
    let found: Vec<u8> =
        redis::cmd("HGET").arg(format!("bare-hash:{task}")).arg("v").query_async(&mut connection).await?;
    let text: String = serde_json::from_slice(&found)?;
    if text.len() == 256 { Ok(()) } else { Err("the bare value is missing".into()) }
}

async fn bare(mut connection: MultiplexedConnection, task: u32) -> Result<(), Failure> {
    let mut fields = redis::cmd("HMGET");
    fields.arg(format!("bare-hash:{task}")).arg(&["v", "m"]);
    let found: [Vec<u8>; 2] = fields.query_async(&mut connection).await?;
    let text: String = serde_json::from_slice(&found[0])?;
    if text.len() == 256 { Ok(()) } else { Err("the bare value is missing".into()) }
}
