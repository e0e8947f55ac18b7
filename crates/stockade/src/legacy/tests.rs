//! Against a real server, with an old system played by raw commands.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use rand::Rng;
use stockade_testbed::RedisServer;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use super::{SetnxError, SetnxLock, SetnxLocks, Unit, locks::RELEASE};
use crate::{
    lock::{Released, Unavailable},
    redis::Redis,
};

const LIMIT: Duration = Duration::from_secs(20);
const KEY: &str = "lock.foo";

struct World {
    server: RedisServer,
}

impl World {
    async fn start() -> Self {
        Self { server: RedisServer::start().await.unwrap() }
    }

    /// Locks as another process would have them. Commands may be slow on a busy machine.
    async fn locks(&self) -> SetnxLocks {
        let redis = Redis::builder(self.server.url()).command_timeout(Duration::from_secs(5)).connect().await.unwrap();
        SetnxLocks::new(&redis).unwrap()
    }

    async fn command(&self, words: &[&str]) -> String {
        self.server.command(words).await.unwrap().trim().to_owned()
    }

    async fn value(&self) -> String {
        self.command(&["GET", KEY]).await
    }

    async fn until_free(&self) {
        let limit = Instant::now() + LIMIT;
        while self.command(&["EXISTS", KEY]).await != "0" {
            assert!(Instant::now() < limit, "still held: {}", self.value().await);
            sleep(Duration::from_millis(5)).await;
        }
    }
}

fn lock(locks: &SetnxLocks) -> SetnxLock {
    locks.lock(KEY).lease(Duration::from_secs(60)).wait(LIMIT)
}

/// A time that is over, as a holder that crashed leaves it.
fn past() -> String {
    (Unit::Seconds.now() - 10).to_string()
}

/// The times that two clients write which find the lock expired, the second a moment later.
fn times() -> [String; 2] {
    [11, 12].map(|later| (Unit::Seconds.now() + later).to_string())
}

fn is_over(time: &str) -> bool {
    Unit::Seconds.left(time.parse().unwrap()).is_none()
}

#[tokio::test]
async fn deleting_what_expired_lets_two_in() {
    let world = World::start().await;
    world.command(&["SET", KEY, &past()]).await;
    let mut inside = 0;
    // Both have read, and find it expired; then one acts after the other.
    let seen = [world.value().await, world.value().await];
    for (seen, time) in seen.iter().zip(times()) {
        assert!(is_over(seen));
        world.command(&["DEL", KEY]).await;
        inside += world.command(&["SETNX", KEY, &time]).await.parse::<u32>().unwrap();
    }
    assert_eq!(inside, 2, "each deleted and set, the second what the first had just taken");
}

#[tokio::test]
async fn exchanging_what_expired_lets_one_in() {
    let world = World::start().await;
    world.command(&["SET", KEY, &past()]).await;
    let mut inside = 0;
    let seen = [world.value().await, world.value().await];
    for (seen, time) in seen.iter().zip(times()) {
        assert!(is_over(seen));
        let before = world.command(&["GETSET", KEY, &time]).await;
        inside += u32::from(is_over(&before));
    }
    assert_eq!(inside, 1);
    assert_eq!(world.value().await, times()[1], "the loser has moved the holder's time");
}

#[tokio::test]
async fn of_many_who_find_it_expired_one_gets_it_and_can_release_it() {
    const CLIENTS: usize = 5;
    let world = World::start().await;
    let clients = join_all((0..CLIENTS).map(|_| world.locks())).await;
    let mut moved = 0;
    for _ in 0..60 {
        world.command(&["SET", KEY, &past()]).await;
        // Different leases, so that the losers' times differ from the winner's.
        let tries = clients
            .iter()
            .zip(60..)
            .map(|(locks, lease)| locks.lock(KEY).lease(Duration::from_secs(lease)).try_acquire());
        let mut held: Vec<_> = join_all(tries).await.into_iter().filter_map(Result::unwrap).collect();
        let Some(guard) = held.pop() else { panic!("nobody got it") };
        assert!(held.is_empty(), "{} more got it", held.len());
        let left = Unit::Seconds.left(world.value().await.parse().unwrap()).unwrap();
        moved += u32::from(left > guard.remaining() + Duration::from_secs(2) || left < guard.remaining());
        assert_eq!(guard.release().await.unwrap(), Released::Released);
        assert_eq!(world.command(&["EXISTS", KEY]).await, "0");
    }
    assert!(moved > 0, "nobody lost a race, so nothing was tested");
}

#[tokio::test]
async fn a_crashed_holder_is_taken_over_when_its_time_is_over() {
    let world = World::start().await;
    for unit in [Unit::Seconds, Unit::Millis] {
        let locks = world.locks().await.unit(unit);
        let crashed = unit.end_of(Duration::from_secs(1));
        world.command(&["SET", KEY, &crashed.to_string()]).await;
        assert!(lock(&locks).try_acquire().await.unwrap().is_none());
        let guard = lock(&locks).acquire().await.unwrap();
        assert!(unit.now() > crashed);
        let mine: u64 = world.value().await.parse().unwrap();
        assert!(mine > unit.now() + unit.lease(Duration::from_secs(50)), "{mine}");
        assert!(guard.is_held() && guard.remaining() > Duration::from_secs(50) && guard.key() == KEY);
        assert_eq!(guard.release().await.unwrap(), Released::Released);
        world.until_free().await;
    }
}

#[tokio::test]
async fn a_late_holder_does_not_free_its_successor() {
    let world = World::start().await;
    let (one, two) = (world.locks().await, world.locks().await);
    let late = lock(&one).lease(Duration::from_secs(1)).acquire().await.unwrap();
    let dropped_late = one.lock("other").lease(Duration::from_secs(1)).acquire().await.unwrap();
    let successor = lock(&two).acquire().await.unwrap();
    let other = two.lock("other").lease(Duration::from_secs(60)).acquire().await.unwrap();
    assert!(!late.is_held() && late.remaining().is_zero());
    let before = world.value().await;
    assert_eq!(late.release().await.unwrap(), Released::Lost);
    drop(dropped_late);
    one.shutdown(LIMIT).await;
    assert_eq!((world.value().await, world.command(&["EXISTS", "other"]).await), (before, "1".to_owned()));
    assert_eq!(successor.release().await.unwrap(), Released::Released);
    assert_eq!(other.release().await.unwrap(), Released::Released);
}

#[tokio::test]
async fn a_release_that_arrives_late_leaves_a_successor_alone() {
    let world = World::start().await;
    let now = Unit::Seconds.now();
    // The holder's time, what is there by now, and whether it may be deleted; the holder had a lease of ten seconds.
    let cases = [
        (now + 5, (now + 5).to_string(), true, "its own"),
        (now - 5, (now - 5).to_string(), true, "its own, over, and nobody came"),
        (now + 5, (now + 7).to_string(), true, "moved by one who lost a race"),
        (now - 5, (now + 4).to_string(), false, "over, so it may be a successor with a shorter lease"),
        (now + 5, (now + 15).to_string(), false, "a successor's, by a clock that is ahead"),
        (now + 5, "text".to_owned(), false, "something else"),
    ];
    for (mine, there, deleted, why) in cases {
        world.command(&["SET", KEY, &there]).await;
        let [mine, later] = [mine, mine + 10].map(|time| time.to_string());
        let reply = world.command(&["EVAL", RELEASE.text, "1", KEY, &mine, &later, "1000000"]).await;
        assert_eq!(reply == "1", deleted, "{why}");
        assert_eq!(world.value().await.is_empty(), deleted, "{why}");
    }
    world.command(&["DEL", KEY]).await;
    assert_eq!(world.command(&["EVAL", RELEASE.text, "1", KEY, "1", "2", "1000000"]).await, "0");
}

/// One client of the old system: takes the lock by raw commands, counts, and deletes the key.
async fn old_system(url: String, rounds: u64) {
    let client = redis::Client::open(url).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    for _ in 0..rounds {
        loop {
            let time = Unit::Seconds.now() + 61;
            let set: u32 = redis::cmd("SETNX").arg(KEY).arg(time).query_async(&mut connection).await.unwrap();
            if set == 1 {
                break;
            }
            let seen: Option<String> = redis::cmd("GET").arg(KEY).query_async(&mut connection).await.unwrap();
            if seen.is_some_and(|seen| is_over(&seen)) {
                let before: Option<String> =
                    redis::cmd("GETSET").arg(KEY).arg(time).query_async(&mut connection).await.unwrap();
                if before.is_none_or(|before| is_over(&before)) {
                    break;
                }
            }
            sleep(Duration::from_millis(5)).await;
        }
        count(&mut connection).await;
        redis::cmd("DEL").arg(KEY).exec_async(&mut connection).await.unwrap();
    }
}

/// Two commands: an update that comes between is lost.
async fn count(connection: &mut redis::aio::MultiplexedConnection) {
    let seen: Option<u64> = redis::cmd("GET").arg("counter").query_async(connection).await.unwrap();
    redis::cmd("SET").arg("counter").arg(seen.unwrap_or_default() + 1).exec_async(connection).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_of_both_kinds_count_right_together() {
    const CLIENTS: u64 = 4;
    const ROUNDS: u64 = 12;
    let world = World::start().await;
    world.command(&["SET", KEY, &past()]).await;
    let mut tasks = JoinSet::new();
    for _ in 0..CLIENTS {
        tasks.spawn(old_system(world.server.url(), ROUNDS));
        let (locks, url) = (world.locks().await, world.server.url());
        tasks.spawn(async move {
            let client = redis::Client::open(url).unwrap();
            let mut connection = client.get_multiplexed_async_connection().await.unwrap();
            for _ in 0..ROUNDS {
                let guard = lock(&locks).wait(LIMIT * 3).acquire().await.unwrap();
                count(&mut connection).await;
                assert_eq!(guard.release().await.unwrap(), Released::Released);
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    assert_eq!(world.command(&["GET", "counter"]).await, (2 * CLIENTS * ROUNDS).to_string());
    world.until_free().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attempts_dropped_at_any_point_leave_nothing() {
    let world = World::start().await;
    let granted = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..4 {
        let (locks, granted) = (world.locks().await, Arc::clone(&granted));
        tasks.spawn(async move {
            for _ in 0..50 {
                let limit = Duration::from_micros(rand::rng().random_range(0..3_000));
                match timeout(limit, lock(&locks).wait(limit).acquire()).await {
                    Ok(Ok(guard)) => {
                        granted.fetch_add(1, Ordering::Relaxed);
                        if rand::rng().random_bool(0.5) {
                            let _ = timeout(limit / 8, guard.release()).await;
                        }
                    }
                    Ok(Err(SetnxError::Timeout { .. })) | Err(_) => {}
                    Ok(Err(error)) => panic!("{error}"),
                }
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    assert!(granted.load(Ordering::Relaxed) > 0, "nothing was ever granted, so nothing was tested");
    // Long before any lease is over.
    world.until_free().await;
}

#[test]
fn a_guard_dropped_outside_of_a_runtime_releases() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let world = runtime.block_on(World::start());
    let locks = runtime.block_on(world.locks());
    let guard = runtime.block_on(lock(&locks).acquire()).unwrap();
    drop(guard);
    runtime.block_on(world.until_free());
}

#[tokio::test]
async fn bad_input_is_refused_and_changes_nothing() {
    let world = World::start().await;
    let locks = world.locks().await;
    let seconds = Duration::from_secs;
    for key in ["", &"x".repeat(513), "stockade:v1:{265b}l:stock:1"] {
        assert!(matches!(locks.lock(key).acquire().await, Err(SetnxError::Key(_))), "{key}");
    }
    let refused = [
        lock(&locks).lease(Duration::from_millis(999)).acquire().await,
        lock(&locks).lease(seconds(301)).acquire().await,
        lock(&locks).wait(seconds(3601)).acquire().await,
    ];
    for (refused, what) in refused.into_iter().zip(["lease", "lease", "wait"]) {
        assert!(matches!(&refused, Err(SetnxError::Duration { what: named, .. }) if *named == what), "{refused:?}");
    }
    assert_eq!(world.command(&["DBSIZE"]).await, "0");

    let millis = Unit::Millis.now() + 10_000;
    for value in ["", "a token of some other lock", "17", &millis.to_string()] {
        world.command(&["SET", KEY, value]).await;
        assert!(matches!(lock(&locks).acquire().await, Err(SetnxError::Value(Unit::Seconds))), "{value}");
        assert_eq!(world.value().await, value);
    }
    world.command(&["DEL", KEY]).await;
    world.command(&["RPUSH", KEY, "1"]).await;
    assert!(matches!(lock(&locks).acquire().await, Err(SetnxError::Value(Unit::Seconds))));
    // In its own unit it is a lock that is held.
    world.command(&["SET", KEY, &millis.to_string()]).await;
    assert!(lock(&locks.unit(Unit::Millis)).try_acquire().await.unwrap().is_none());
}

/// Known from the URL: no server is needed.
#[cfg(feature = "cluster")]
#[tokio::test]
async fn a_cluster_is_refused() {
    let redis = Redis::connect("redis-cluster://127.0.0.1:1").await.unwrap();
    assert!(matches!(SetnxLocks::new(&redis), Err(SetnxError::Cluster)));
}

#[tokio::test]
async fn a_wait_ends_within_its_limit_and_with_a_shutdown() {
    let world = World::start().await;
    let (one, two) = (world.locks().await, world.locks().await);
    let held = lock(&one).acquire().await.unwrap();
    let (wait, since) = (Duration::from_millis(300), Instant::now());
    match lock(&two).wait(wait).acquire().await {
        Err(SetnxError::Timeout { waited, remaining }) => {
            assert!(waited >= wait && waited <= since.elapsed(), "{waited:?}");
            assert!(remaining > Duration::from_secs(50) && remaining <= Duration::from_secs(62), "{remaining:?}");
        }
        other => panic!("{other:?}"),
    }
    assert!(since.elapsed() < wait + Duration::from_secs(3));

    let mut tasks = JoinSet::new();
    tasks.spawn(lock(&two).acquire());
    sleep(Duration::from_millis(50)).await;
    two.shutdown(LIMIT).await;
    let ended = timeout(LIMIT, tasks.join_next()).await.expect("waits on").unwrap().unwrap();
    assert!(matches!(ended, Err(SetnxError::ShuttingDown)), "{ended:?}");
    assert!(matches!(lock(&two).acquire().await, Err(SetnxError::ShuttingDown)));
    drop(held);
    world.until_free().await;
}

#[tokio::test]
async fn a_frozen_server_is_answered_in_time_and_a_release_reaches_it_when_it_thaws() {
    let world = World::start().await;
    let locks = SetnxLocks::new(&Redis::connect(world.server.url()).await.unwrap()).unwrap();
    let held = lock(&locks).acquire().await.unwrap();
    world.server.pause().unwrap();
    let since = Instant::now();
    let refused = locks.lock("other").acquire().await;
    assert!(matches!(refused, Err(SetnxError::Unavailable { reason: Unavailable::Timeout, .. })), "{refused:?}");
    let refused = held.release().await;
    assert!(matches!(refused, Err(SetnxError::Unavailable { .. })), "{refused:?}");
    assert!(since.elapsed() < Duration::from_secs(3), "{:?}", since.elapsed());
    world.server.resume().unwrap();
    world.until_free().await;
}
