//! Rows of the outbox that a cache refuses, while it accepts others.

use std::sync::Arc;

use stockade::{cache::Source, postgres::Relay};

use super::{
    Sku,
    cached::{World, online, read, stock_at},
    until,
};
use crate::{log::Log, world};

/// More rows than a relay takes at a time.
const REFUSED: i64 = 300;

impl World {
    /// Creates a Redis user that may not touch keys ending with an x, and returns that user's URL.
    async fn restricted(&self) -> String {
        let rules = ["ACL", "SETUSER", "relay", "reset", "on", ">password", "~*[^x]", "&*", "+@all"];
        self.redis.command(&rules).await.unwrap();
        self.redis.url().replace("redis://", "redis://relay:password@")
    }

    async fn allow(&self) {
        self.redis.command(&["ACL", "SETUSER", "relay", "allkeys"]).await.unwrap();
    }

    /// Inserts rows as if their writers had left them to the relay. `%` stands for the number of each row.
    async fn left(&self, resource: &str, rows: i64) {
        const LEFT: &str = "insert into stockade.outbox (cache, resource, created_at)
            select 'stock', replace($1, '%', n::text), now() - interval '1 min' from generate_series(1, $2) n";
        sqlx::query(LEFT).bind(resource).bind(rows).execute(&self.pool).await.unwrap();
    }

    /// How many rows are not applied, and how many of them were refused at least once and more than once.
    async fn waiting(&self) -> (i64, i64, i64) {
        const WAITING: &str =
            "select count(*), count(*) filter (where attempts > 0), count(*) filter (where attempts > 1)
            from stockade.outbox where applied_at is null";
        sqlx::query_as(WAITING).fetch_one(&self.pool).await.unwrap()
    }
}

#[tokio::test]
async fn rows_that_are_refused_keep_no_others_waiting_and_are_tried_again() {
    let (log, _logging) = Log::start();
    let world = World::patient().await;
    let reader = online(world.at(&world.redis.url()).await).await;
    assert_eq!(read(&reader).await, 10);
    assert!(world.is_stored().await);
    let relays = online(world.at(&world.restricted().await).await).await;
    world.left("stock:%x", REFUSED).await;
    world.left("stock:a", 1).await;
    *world.relay.lock().unwrap() = Some(Relay::spawn(world.pool.clone(), [relays.invalidator()]));
    until(async || !world.is_stored().await).await;
    until(async || world.waiting().await.2 > 0).await;
    assert_eq!((world.waiting().await.0, world.waiting().await.1), (REFUSED, REFUSED));
    world.allow().await;
    until(async || world.waiting().await.0 == 0).await;
    let lines = |words: &str| -> Vec<String> {
        log.text().lines().filter(|line| line.contains(words)).map(str::to_owned).collect()
    };
    let (refuses, applied) =
        ("refuses some of its invalidations", "every invalidation that the cache had refused is applied");
    until(async || !lines(applied).is_empty()).await;
    let told = lines(refuses);
    assert!(told.len() == 1 && told[0].contains("WARN") && told[0].contains(r#"cache="stock""#), "{told:?}");
    let forbidden = lines("(NOPERM)");
    assert_eq!(forbidden.len(), 1, "each operation is named once");

    // What is refused after that is told again.
    world.restricted().await;
    world.left("stock:x", 1).await;
    until(async || world.waiting().await.2 > 0).await;
    assert_eq!((lines(refuses).len(), lines(applied).len()), (2, 1));
    world.end().await;
}

#[tokio::test]
async fn no_run_is_vouched_for_while_a_row_is_refused() {
    // A log statement that first runs without a subscriber is switched off for the other tests, too.
    let (_log, _logging) = Log::start();
    let world = World::patient().await;
    let url = world.restricted().await;
    let redis = world::patient(&url).await;
    let cache = online(stock_at(&redis, &world.pool, &Arc::default()).strict(&world.pool)).await;
    // Rows that are accepted come behind a row that is refused.
    world.left("stock:x", 1).await;
    world.left("stock:a", REFUSED).await;
    *world.relay.lock().unwrap() = Some(Relay::spawn(world.pool.clone(), [cache.invalidator()]));
    until(async || world.waiting().await == (1, 1, 1)).await;
    for _ in 0..3 {
        let source = cache.get(&Sku("a")).await.unwrap().info.source;
        assert_eq!(source, Source::Load, "believed although an invalidation was not made");
    }
    world.allow().await;
    until(async || cache.get(&Sku("a")).await.unwrap().info.source == Source::Redis).await;
    until(async || world.waiting().await.0 == 0).await;
    world.end().await;
}

#[tokio::test]
async fn a_foreign_value_in_place_of_announcements_is_no_announcement() {
    let world = World::patient().await;
    let (writer, reader) = (world.cache().await, world.cache().await);
    let entry = world.keys('e').await;
    let intents = entry.replace("}e:", "}i:");
    let source = async || reader.get(&Sku("a")).await.unwrap().info.source;
    for quantity in [9, 8] {
        // A text, or a hash with fields that no writer announces.
        let foreign: [&[&str]; 2] = [&["SET", &intents, "foreign"], &["HSET", &intents, "somebody", "else"]];
        for command in foreign {
            world.redis.command(command).await.unwrap();
            world.write(&writer, quantity).await.commit().await.unwrap();
            assert_eq!(read(&reader).await, quantity);
            until(async || source().await == Source::Redis).await;
            assert_eq!(world.redis.command(&["EXISTS", &intents]).await.unwrap(), "0");
        }
    }
    // The relay also deletes a foreign value.
    world.redis.command(&["SET", &intents, "foreign"]).await.unwrap();
    let left = "insert into stockade.outbox (cache, resource, intent, created_at)
        values ('stock', 'stock:a', 'lost', now() - interval '1 min')";
    sqlx::raw_sql(left).execute(&world.pool).await.unwrap();
    until(async || world.redis.command(&["EXISTS", &intents]).await.unwrap() == "0").await;
    until(async || world.waiting().await == (0, 0, 0)).await;
    world.end().await;
}
