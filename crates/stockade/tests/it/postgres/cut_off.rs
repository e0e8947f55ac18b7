//! An old primary that does not know of its successor, with processes that go on reading from it and writing to it.

use std::time::Duration;

use stockade::{
    Cache, Redis,
    cache::{BuildError, CacheBuilder, Source},
    postgres::{CommitError, Relay},
};
use stockade_testbed::{Fault, Proxy, RedisServer};
use tokio::time::{Instant, sleep};

use super::{
    Sku,
    cached::{World, has, online, read, source},
    until,
};
use crate::{
    log::Log,
    redis_traffic::calls,
    world::{Group, cached},
};

const OVERWRITTEN: i32 = 10;
const WRITTEN: i32 = 9;

/// The `min-replicas-max-lag` of a pair. A server may take up to two seconds longer, since it counts whole seconds and
/// checks once a second.
pub(super) const LAG: Duration = Duration::from_secs(3);

/// An old primary, the new primary that takes its place, and a replica of the new primary.
pub(super) struct Pair {
    pub(super) old: RedisServer,
    between: Proxy,
    pub(super) new: RedisServer,
    third: RedisServer,
}

impl Pair {
    pub(super) async fn start(lag: Duration) -> Self {
        let lag = lag.as_secs().to_string();
        let settings = || RedisServer::builder().args(["--min-replicas-to-write", "1", "--min-replicas-max-lag", &lag]);
        let old = settings().start().await.unwrap();
        let between = Proxy::start(old.addr()).await.unwrap();
        let port = between.addr().port().to_string();
        let new = settings().args(["--replicaof", "127.0.0.1", &port]).start().await.unwrap();
        until(async || replication(&new).await.contains("master_link_status:up")).await;
        let third = settings().replica_of(&new).start().await.unwrap();
        until(async || replication(&old).await.contains("min_slaves_good_slaves:1")).await;
        Self { old, between, new, third }
    }

    /// Waits until the new primary has the marker of this cache. Without the marker an eventual cache needs no relay.
    async fn knows(&self, cache: &str) {
        until(async || !marker(&self.new, cache).await.trim().is_empty()).await;
    }

    /// Cuts the old primary off from the two others, and promotes the new primary.
    pub(super) async fn divide(&self) {
        self.between.set(Fault::Hole);
        self.new.command(&["REPLICAOF", "NO", "ONE"]).await.unwrap();
        until(async || replication(&self.new).await.contains("min_slaves_good_slaves:1")).await;
    }
}

pub(super) async fn replication(server: &RedisServer) -> String {
    server.command(&["INFO", "replication"]).await.unwrap()
}

/// Vouches for the server in place of a relay, which would take long, and waits until the strict cache uses its hits.
pub(super) async fn vouched_by_hand(server: &RedisServer, cache: &Cache<Sku, i32>) {
    let marker = server.command(&["KEYS", "*}j:stock"]).await.unwrap();
    let unsure = server.command(&["GET", &marker]).await.unwrap();
    server.command(&["SET", &marker, unsure.replace(" u", " t").as_str()]).await.unwrap();
    until(async || source(cache).await == Source::Redis).await;
}

/// How many of the caches on this server have a value of the row.
async fn stored(server: &RedisServer) -> usize {
    let entries = server.command(&["KEYS", "*}e:*:stock:a"]).await.unwrap();
    let mut stored = 0;
    for entry in entries.lines() {
        stored += usize::from(has(server, entry, "v").await);
    }
    stored
}

/// Waits until the strict cache has a hit. None of its answers may be older than the write.
async fn reads_what_was_written(reader: &Cache<Sku, i32>) {
    until(async || {
        let lookup = reader.get(&Sku("a")).await.unwrap();
        assert_eq!(lookup.value.as_deref(), Some(&WRITTEN), "older than an acknowledged write: {:?}", lookup.info);
        lookup.info.source == Source::Redis
    })
    .await;
}

/// How often a test starts again when a busy machine was too slow for it.
const ATTEMPTS: usize = 5;

#[tokio::test]
#[expect(clippy::print_stdout, reason = "for how long it was served is a result")]
async fn an_old_primary_serves_what_was_overwritten_for_a_bounded_time() {
    for _ in 0..ATTEMPTS {
        let served = served_by_an_old_primary().await;
        println!("what was overwritten was served for {served:?}");
        if !served.is_zero() {
            return;
        }
    }
    panic!("the old primary never served what was overwritten: nothing was shown");
}

/// How long after the division a reader was last served the old value from the old primary.
async fn served_by_an_old_primary() -> Duration {
    // The lag and two seconds in which the server notices it, two for which a successful write is proof, and one for a
    // busy machine.
    const BOUND: Duration = Duration::from_secs(3 + 2 + 2 + 1);
    let world = World::patient().await;
    let pair = Pair::start(LAG).await;
    let reader = online(world.at(&pair.old.url()).await.strict(&world.pool)).await;
    vouched_by_hand(&pair.old, &reader).await;

    pair.divide().await;
    let cut = Instant::now();
    let writer = online(world.at(&pair.new.url()).await.strict(&world.pool)).await;
    world.write(&writer, WRITTEN).await.commit().await.unwrap();
    let mut served = Duration::ZERO;
    while cut.elapsed() < BOUND {
        let lookup = reader.get(&Sku("a")).await.unwrap();
        if lookup.info.source == Source::Redis {
            assert_eq!(lookup.value.as_deref(), Some(&OVERWRITTEN));
            served = cut.elapsed();
        } else {
            assert_eq!(lookup.value.as_deref(), Some(&WRITTEN));
        }
        sleep(Duration::from_millis(20)).await;
    }
    for _ in 0..3 {
        let lookup = reader.get(&Sku("a")).await.unwrap();
        assert_eq!((lookup.value.as_deref(), lookup.info.source), (Some(&WRITTEN), Source::Load));
    }
    world.end_behind(pair).await;
    served
}

#[tokio::test]
async fn proof_that_a_primary_takes_writes_costs_two_commands_a_second() {
    let world = World::patient().await;
    let pair = Pair::start(LAG).await;
    let cache = online(world.at(&pair.old.url()).await.strict(&world.pool)).await;
    vouched_by_hand(&pair.old, &cache).await;
    for attempt in 1.. {
        let since = Instant::now();
        pair.old.command(&["CONFIG", "RESETSTAT"]).await.unwrap();
        let mut reads = 0;
        while since.elapsed() < Duration::from_secs(4) && source(&cache).await == Source::Redis {
            reads += 1;
        }
        if since.elapsed() < Duration::from_secs(4) {
            // The machine stood still, so begin again. The scripts of loads delete, too, and would spoil the count.
            assert!(attempt < ATTEMPTS, "it is not believed for four seconds");
            until(async || source(&cache).await == Source::Redis).await;
            continue;
        }
        let calls = calls(&pair.old).await;
        let writes = since.elapsed().as_millis() / 500;
        assert_eq!(calls["hget"], reads, "{calls:?}");
        // One more may have been on its way at the beginning, and one may be due at the end.
        assert!((1..=writes + 2).contains(&calls["del"].into()), "{writes} were due: {calls:?}");
        break;
    }
    world.end_behind(pair).await;
}

#[tokio::test]
async fn hits_come_back_when_a_primary_takes_writes_again() {
    let world = World::patient().await;
    let pair = Pair::start(LAG).await;
    let cache = online(world.at(&pair.old.url()).await.strict(&world.pool)).await;
    vouched_by_hand(&pair.old, &cache).await;
    let (log, _logging) = Log::start();
    pair.new.pause().unwrap();
    until(async || source(&cache).await == Source::Load).await;
    // A server that refuses still answers, so even many refusals do not open the breaker.
    for _ in 0..10 {
        assert_eq!(read(&cache).await, OVERWRITTEN);
    }
    assert!(!cache.is_degraded(), "the breaker is open");
    assert_eq!(log.text().matches("Redis rejects writes").count(), 1, "{}", log.text());
    pair.new.resume().unwrap();
    until(async || source(&cache).await == Source::Redis).await;
    world.end_behind(pair).await;
}

#[tokio::test]
async fn what_was_written_through_an_old_primary_is_seen_at_the_new_one() {
    for _ in 0..ATTEMPTS {
        if written_through_an_old_primary().await {
            return;
        }
    }
    panic!("the old primary never took the write: nothing was shown");
}

/// Whether the old primary took the write. It takes none later than ten seconds after the division.
async fn written_through_an_old_primary() -> bool {
    let world = World::patient().await;
    let pair = Pair::start(Duration::from_secs(10)).await;
    let eventual = async |server: &RedisServer| online(world.at(&server.url()).await.name("eventual")).await;
    let writer = online(world.at(&pair.old.url()).await.strict(&world.pool)).await;
    let eventual_writer = eventual(&pair.old).await;
    vouched_by_hand(&pair.old, &writer).await;
    // The relay applies these rows again to each new run, so their effect shows that it did.
    let kept = "insert into stockade.outbox (cache, resource, applied_at)
        values ('stock', 'stock:a', now()), ('eventual', 'stock:a', now())";
    sqlx::raw_sql(kept).execute(&world.pool).await.unwrap();
    pair.knows("eventual").await;

    pair.divide().await;
    let reader = online(world.at(&pair.new.url()).await.strict(&world.pool)).await;
    let eventual_reader = eventual(&pair.new).await;
    let read_both = async || {
        assert_eq!((read(&reader).await, read(&eventual_reader).await), (OVERWRITTEN, OVERWRITTEN));
        assert_eq!(stored(&pair.new).await, 2, "nothing is there to be dropped");
    };
    read_both().await;
    let caches = [reader.invalidator(), eventual_reader.invalidator()];
    *world.relay.lock().unwrap() = Some(Relay::spawn(world.pool.clone(), caches));
    until(async || stored(&pair.new).await == 0).await;
    read_both().await;

    // The write is announced, committed and ended on the old primary, where the readers do not hear of it.
    let mut tx = world.write(&writer, WRITTEN).await;
    tx.invalidate(&eventual_writer, &Sku("a"));
    match tx.commit().await {
        Ok(()) => {}
        Err(CommitError::Announce(_)) => {
            world.end_behind(pair).await;
            return false;
        }
        Err(error) => panic!("{error}"),
    }
    reads_what_was_written(&reader).await;
    until(async || read(&eventual_reader).await == WRITTEN).await;
    world.end_behind(pair).await;
    true
}

/// The marker that says whether this cache trusts the run of this server.
async fn marker(server: &RedisServer, cache: &str) -> String {
    let key = server.command(&["KEYS", &format!("*}}j:{cache}")]).await.unwrap();
    server.command(&["GET", &key]).await.unwrap()
}

async fn set_replicas(server: &RedisServer, count: &str) {
    server.command(&["CONFIG", "SET", "min-replicas-to-write", count]).await.unwrap();
}

#[tokio::test]
async fn a_primary_that_takes_writes_beside_another_is_not_vouched_for() {
    let world = World::patient().await;
    let pair = Pair::start(LAG).await;
    let writer = online(world.at(&pair.old.url()).await.strict(&world.pool)).await;
    online(world.at(&pair.old.url()).await.name("eventual")).await;
    pair.knows("eventual").await;
    pair.divide().await;
    let reader = online(world.at(&pair.new.url()).await.strict(&world.pool)).await;
    let eventual = online(world.at(&pair.new.url()).await.name("eventual")).await;
    let (log, _logging) = Log::start();
    for server in [&pair.old, &pair.new] {
        set_replicas(server, "0").await;
    }
    until(async || log.text().matches("does not believe it").count() == 2).await;

    // The relay trusts the run for the eventual cache. By then it would have trusted it for the strict one, too.
    let caches = [reader.invalidator(), eventual.invalidator()];
    *world.relay.lock().unwrap() = Some(Relay::spawn(world.pool.clone(), caches));
    until(async || marker(&pair.new, "eventual").await.ends_with(" t")).await;
    assert!(!marker(&pair.new, "stock").await.ends_with(" t"), "its rival takes writes as ever");
    assert_eq!(read(&reader).await, OVERWRITTEN);
    world.write(&writer, WRITTEN).await.commit().await.unwrap();

    // An operator does what the warning says.
    for server in [&pair.old, &pair.new] {
        set_replicas(server, "1").await;
    }
    reads_what_was_written(&reader).await;
    world.end_behind(pair).await;
}

#[tokio::test]
async fn an_old_primary_whose_settings_are_taken_away_is_not_believed_again() {
    let world = World::patient().await;
    let pair = Pair::start(LAG).await;
    let cache = online(world.at(&pair.old.url()).await.strict(&world.pool)).await;
    vouched_by_hand(&pair.old, &cache).await;
    let (log, _logging) = Log::start();
    pair.divide().await;
    until(async || log.text().contains("Redis rejects writes")).await;
    set_replicas(&pair.old, "0").await;
    until(async || log.text().contains("does not believe it")).await;
    assert_eq!(source(&cache).await, Source::Load);
    world.end_behind(pair).await;
}

#[tokio::test]
async fn a_strict_cache_on_a_redis_with_replicas_says_once_what_bounds_nothing() {
    let world = World::patient().await;
    let primary = RedisServer::start().await.unwrap();
    let replica = RedisServer::builder().replica_of(&primary).start().await.unwrap();
    until(async || replication(&primary).await.contains("connected_slaves:1")).await;
    let (log, _logging) = Log::start();
    online(world.at(&primary.url()).await.name("eventual")).await;
    assert!(!log.text().contains("min-replicas-to-write"), "{}", log.text());
    let cache = online(world.at(&primary.url()).await.strict(&world.pool)).await;
    primary.command(&["CLIENT", "KILL", "TYPE", "pubsub"]).await.unwrap();
    vouched_by_hand(&primary, &cache).await;
    assert_eq!(log.text().matches("set `min-replicas-to-write`").count(), 1, "{}", log.text());
    world.end_behind((primary, replica)).await;
}

#[tokio::test]
async fn how_long_an_old_primary_may_be_written_to_is_counted_from_the_first_write_of_the_new_one() {
    let world = World::patient().await;
    let pair = Pair::start(Duration::from_secs(10)).await;
    // The old primary keeps a replica, and the new primary has none.
    let fourth = RedisServer::builder().replica_of(&pair.old).start().await.unwrap();
    pair.third.pause().unwrap();
    let writer = online(world.at(&pair.old.url()).await.strict(&world.pool)).await;
    vouched_by_hand(&pair.old, &writer).await;
    pair.between.set(Fault::Hole);
    pair.new.command(&["REPLICAOF", "NO", "ONE"]).await.unwrap();
    let reader = cached(world.at(&pair.new.url()).await.strict(&world.pool).build());
    *world.relay.lock().unwrap() = Some(Relay::spawn(world.pool.clone(), [reader.invalidator()]));
    let since = Instant::now();
    while since.elapsed() < Duration::from_secs(15) {
        assert_eq!(source(&reader).await, Source::Load);
        sleep(Duration::from_millis(100)).await;
    }

    pair.third.resume().unwrap();
    until(async || !reader.is_degraded()).await;
    // Seven seconds are longer than the pause of a relay after a failure.
    let since = Instant::now();
    until(async || source(&reader).await == Source::Redis || since.elapsed() > Duration::from_secs(7)).await;
    world.write(&writer, WRITTEN).await.commit().await.unwrap();
    reads_what_was_written(&reader).await;
    world.end_behind((pair, fourth)).await;
}

#[tokio::test]
async fn a_strict_cache_behind_sentinels_wants_primaries_that_stop_writing() {
    let world = World::patient().await;
    let group = Group::start().await;
    let refused = world.at(&group.url()).await.strict(&world.pool).try_build().map(drop).unwrap_err();
    assert!(matches!(refused, BuildError::Setting { setting: "strict", .. }), "{refused:?}");
    let text = refused.to_string();
    assert!(text.contains("`min-replicas-to-write`") && text.contains("`min-replicas-max-lag`"), "{text}");
    let eventual: CacheBuilder<Sku, i32> = world.at(&group.url()).await;
    eventual.try_build().map(drop).unwrap();

    let primary = group.primary().await.unwrap();
    set_replicas(primary, "1").await;
    let cache = online(world.at(&group.url()).await.strict(&world.pool)).await;
    vouched_by_hand(primary, &cache).await;
    // An operator takes the setting back, and sets it again.
    let (log, _logging) = Log::start();
    set_replicas(primary, "0").await;
    until(async || source(&cache).await == Source::Load).await;
    until(async || log.text().contains("does not believe it: set `min-replicas-to-write`")).await;
    assert_eq!(source(&cache).await, Source::Load);
    set_replicas(primary, "1").await;
    until(async || source(&cache).await == Source::Redis).await;
    group.end().await;
    world.end().await;
}

#[tokio::test]
async fn a_primary_that_was_not_seen_yet_is_not_held_against_a_strict_cache() {
    let world = World::start().await;
    let redis = Redis::connect("redis-sentinel://127.0.0.1:1/primary").await.unwrap();
    let builder = Cache::<Sku, i32>::builder(&redis).loader(|_| async { Ok::<_, sqlx::Error>(None) });
    let cache = cached(builder.strict(&world.pool).build());
    assert_eq!(source(&cache).await, Source::Load);
    world.end().await;
}
