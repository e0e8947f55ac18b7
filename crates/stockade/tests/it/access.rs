//! Users of a server with only the rights that the documentation lists.

use std::{convert::Infallible, time::Duration};

use futures_util::stream;
use stockade::{
    Cache, Locks, Redis,
    cache::Bloom,
    lock::{Force, Released},
    redis::ConnectError,
};
use stockade_testbed::{RedisServer, eventually};
use tokio::time::{sleep, timeout};
use tokio_util::task::TaskTracker;

use crate::{log::Log, resources::Item};

const DOCUMENTED: &str = include_str!("../../src/redis/access.md");
const LIMIT: Duration = Duration::from_secs(20);

/// The documented rules of a user.
fn rules(name: &str) -> Vec<&'static str> {
    let line = DOCUMENTED.lines().find_map(|line| line.strip_prefix(&format!("user {name} ")));
    line.expect("not documented").split(' ').collect()
}

/// The URL of a new user with these rules.
async fn user(server: &RedisServer, rules: &[&str]) -> String {
    let words = [&["ACL", "SETUSER", "somebody", "reset"], rules].concat();
    server.command(&words).await.unwrap();
    server.url().replace("redis://", "redis://somebody:password@")
}

/// Fails if the server refused a command, sent directly or by a script.
async fn assert_nothing_was_refused(server: &RedisServer) {
    let refused = server.command(&["ACL", "LOG"]).await.unwrap();
    assert!(refused.is_empty(), "{refused}");
}

async fn process(url: &str) -> Locks {
    let locks = Locks::builder().lease(Duration::from_secs(1)).redis(&Redis::connect(url).await.unwrap());
    eventually("a connection", async || locks.list(1).await.is_ok()).await;
    locks
}

#[tokio::test]
async fn locks_on_several_servers_work_with_what_is_documented() {
    let servers = RedisServer::start_many(3).await.unwrap();
    let mut redis = Vec::new();
    for server in &servers {
        redis.push(Redis::connect(user(server, &rules("redlock")).await).await.unwrap());
    }
    let locks = Locks::builder().lease(Duration::from_secs(1)).redlock(redis).build().unwrap();
    eventually("connections", async || locks.list(1).await.is_ok()).await;
    let held = locks.write(&Item(1)).acquire().await.unwrap();
    assert_eq!(locks.inspect("item:1").await.unwrap().holders.len(), 1);
    let mut remaining = held.remaining();
    eventually("a renewal", async || {
        let before = std::mem::replace(&mut remaining, held.remaining());
        before < remaining
    })
    .await;
    assert_eq!(held.release().await.unwrap(), Released::Released);
    let forced = locks.force_release("item:1", Force::Now).await.unwrap();
    let next = locks.write(&Item(1)).acquire().await.unwrap();
    assert!(next.token() > forced.token);
    next.release().await.unwrap();
    for server in &servers {
        assert_nothing_was_refused(server).await;
    }
}

#[tokio::test]
async fn locks_work_with_what_is_documented() {
    let server = RedisServer::start().await.unwrap();
    let url = user(&server, &rules("locks")).await;
    let (one, other) = (process(&url).await, process(&url).await);
    let held = one.write(&Item(1)).acquire().await.unwrap();
    let readers: Vec<_> = (0..2)
        .map(|_| {
            let request = other.read(&Item(1)).wait(LIMIT);
            TaskTracker::new().spawn(request.acquire())
        })
        .collect();
    eventually("a queue", async || one.inspect("item:1").await.unwrap().waiting == 2).await;
    assert_eq!(one.list(10).await.unwrap(), ["item:1"]);
    let mut remaining = held.remaining();
    eventually("a renewal", async || {
        let before = std::mem::replace(&mut remaining, held.remaining());
        before < remaining
    })
    .await;
    assert_eq!(held.release().await.unwrap(), Released::Released);
    for reader in readers {
        let reader = timeout(LIMIT, reader).await.unwrap().unwrap().unwrap();
        assert_eq!(reader.release().await.unwrap(), Released::Released);
    }
    // A waiter that gives up, a lease that ends, a forced release, and several locks at once.
    let held = one.write(&Item(2)).acquire().await.unwrap();
    other.write(&Item(2)).wait(Duration::from_millis(100)).acquire().await.unwrap_err();
    one.force_release("item:2", Force::AfterLeases).await.unwrap();
    timeout(LIMIT, held.lost()).await.unwrap();
    let several = one.write_all(&[Item(3), Item(4)]).acquire().await.unwrap();
    several.release().await.unwrap();
    let reader = one.read(&Item(5)).acquire().await.unwrap();
    let writer = TaskTracker::new().spawn(other.write(&Item(5)).wait(LIMIT).acquire());
    eventually("a writer that waits", async || one.inspect("item:5").await.unwrap().waiting == 1).await;
    one.force_release("item:5", Force::Now).await.unwrap();
    let written = timeout(LIMIT, writer).await.unwrap().unwrap().unwrap();
    written.release().await.unwrap();
    timeout(LIMIT, reader.lost()).await.unwrap();
    assert_nothing_was_refused(&server).await;
}

fn cache(redis: &Redis) -> Cache<Item, u32> {
    let load = |item: Item| async move {
        sleep(Duration::from_millis(50)).await;
        Ok::<_, Infallible>((item.0 > 0).then_some(item.0))
    };
    Cache::builder(redis).local(1 << 20).loader(load).build()
}

#[tokio::test]
async fn a_cache_works_with_what_is_documented() {
    let server = RedisServer::start().await.unwrap();
    let url = user(&server, &rules("cache")).await;
    let caches = [cache(&Redis::connect(&url).await.unwrap()), cache(&Redis::connect(&url).await.unwrap())];
    eventually("a connection", async || !caches.iter().any(Cache::is_degraded)).await;
    for item in [Item(7), Item(0)] {
        // One cache loads, and the other waits for that load.
        let (one, other) = tokio::join!(caches[0].get(&item), caches[1].get(&item));
        assert_eq!(one.unwrap().value, other.unwrap().value);
        caches[0].invalidate(&item).await.unwrap();
        caches[1].get(&item).await.unwrap();
        caches[0].get(&item).await.unwrap();
    }
    assert!(caches.iter().all(|cache| !cache.is_degraded()));
    let calls = async || server.calls_of("publish").await.unwrap() > 0;
    server.command(&["CONFIG", "RESETSTAT"]).await.unwrap();
    eventually("a beat", calls).await;
    let entries = server.command(&["KEYS", "stockade:v1:*e:*"]).await.unwrap();
    assert_eq!(entries.lines().count(), 2, "{entries}");
    assert_nothing_was_refused(&server).await;
}

#[tokio::test]
async fn a_filter_works_with_what_is_documented() {
    let server = RedisServer::start().await.unwrap();
    let url = user(&server, &rules("filter")).await;
    let items = || stream::iter((1..=3).map(|item| Ok::<_, Infallible>(Item(item))));
    let filter = Bloom::builder::<Item>(&Redis::connect(&url).await.unwrap()).expected(100).source(items).build();
    eventually("it is built", async || filter.stats().ready).await;
    filter.add(&[Item(4)]).await.unwrap();
    assert!(filter.may_hold(&Item(4)).await && !filter.may_hold(&Item(99)).await);
    filter.rebuild().await.unwrap();
    filter.resize().await.unwrap();
    filter.clear().await.unwrap();
    assert_nothing_was_refused(&server).await;
}

#[cfg(feature = "legacy-setnx")]
#[tokio::test]
async fn classic_locks_work_with_what_is_documented() {
    let server = RedisServer::start().await.unwrap();
    let url = user(&server, &rules("legacy")).await;
    let locks = stockade::legacy::SetnxLocks::new(&Redis::connect(&url).await.unwrap()).unwrap();
    // The lock expired in 2001, so the client takes it over.
    server.command(&["SET", "lock.foo", "1000000000"]).await.unwrap();
    let held = locks.lock("lock.foo").lease(Duration::from_secs(60)).acquire().await.unwrap();
    assert!(locks.lock("lock.foo").try_acquire().await.unwrap().is_none());
    // The time was moved, as by a client that lost the race for the expired lock. So the release looks at the clock.
    let time: u64 = server.command(&["GET", "lock.foo"]).await.unwrap().trim().parse().unwrap();
    server.command(&["SET", "lock.foo", &(time + 1).to_string()]).await.unwrap();
    assert_eq!(held.release().await.unwrap(), Released::Released);
    assert_nothing_was_refused(&server).await;
}

/// Waits for a line of the log that has all these words.
async fn logged(log: &Log, words: &[&str]) {
    let told = || {
        let text = log.text().to_lowercase().replace('|', " ");
        text.lines().any(|line| words.iter().all(|word| line.contains(word)))
    };
    eventually(&format!("{words:?} in the log"), async || told()).await;
}

/// Takes one right at a time away from a user. The log of the client that `open` makes must name the missing right.
async fn name_each_missing_right<T>(
    servers: &[&RedisServer],
    role: &str,
    url: &str,
    open: impl AsyncFn(Redis, &str) -> T,
) {
    let rules = rules(role);
    for missing in rules.iter().filter(|rule| rule.starts_with(['+', '~', '&'])) {
        let (kind, name) = missing.split_at(1);
        if name == "client|setname" {
            continue;
        }
        let (log, _logging) = Log::start();
        let others: Vec<_> = rules.iter().copied().filter(|rule| rule != missing).collect();
        for server in servers {
            user(server, &others).await;
        }
        let redis = match Redis::connect(url).await {
            Ok(redis) => redis,
            Err(ConnectError::Forbidden { what }) => {
                assert!(name == "info" && what.contains("`info`"), "{missing}: {what}");
                continue;
            }
            Err(error) => panic!("{missing}: {error}"),
        };
        let _opened = open(redis, missing).await;
        let words = match kind {
            "+" => vec![name.replace('|', " ")],
            "~" => vec!["keys".to_owned()],
            _ => vec!["channels".to_owned()],
        };
        let mut words: Vec<_> = words.iter().map(String::as_str).collect();
        words.extend(["noperm", "stockade::redis"]);
        logged(&log, &words).await;
    }
}

/// Only a listing needs the right to SCAN. Without it, clients can lock.
async fn until_refused_to_list(locks: &Locks, missing: &str) {
    if missing == "+scan" {
        let refused = async || locks.list(1).await.is_err_and(|error| error.to_string().contains("refused"));
        eventually("the refusal", refused).await;
    }
}

#[tokio::test]
async fn each_right_that_is_missing_is_named() {
    let server = RedisServer::start().await.unwrap();
    let url = user(&server, &[]).await;
    name_each_missing_right(&[&server], "locks", &url, async |redis: Redis, missing: &str| {
        let locks = Locks::new(&redis);
        until_refused_to_list(&locks, missing).await;
        locks
    })
    .await;
    name_each_missing_right(&[&server], "cache", &url, async |redis: Redis, missing: &str| {
        let cache = cache(&redis);
        if missing.starts_with('~') {
            // The first read is the first command on a key.
            let _ = cache.get(&Item(1)).await;
        }
        cache
    })
    .await;
}

#[tokio::test]
async fn each_right_that_is_missing_on_a_cluster_is_named() {
    let cluster = stockade_testbed::RedisCluster::builder().without_replicas().start().await.unwrap();
    let nodes: Vec<_> = cluster.nodes().iter().collect();
    let url = cluster.url().replace("redis-cluster://", "redis-cluster://somebody:password@");
    name_each_missing_right(&nodes, "locks-on-cluster", &url, async |redis: Redis, missing: &str| {
        let locks = Locks::new(&redis);
        until_refused_to_list(&locks, missing).await;
        // A client connects to a node when it first needs the node.
        let _ = locks.write(&Item(1)).wait(Duration::ZERO).acquire().await;
        locks
    })
    .await;
}

#[cfg(feature = "redlock")]
#[tokio::test]
async fn each_right_that_is_missing_on_several_servers_is_named() {
    let servers = RedisServer::start_many(3).await.unwrap();
    let mut urls = Vec::new();
    for server in &servers {
        urls.push(user(server, &[]).await);
    }
    let all: Vec<_> = servers.iter().collect();
    name_each_missing_right(&all, "redlock", &urls[0], async |first: Redis, missing: &str| {
        let others = [Redis::connect(&urls[1]).await.unwrap(), Redis::connect(&urls[2]).await.unwrap()];
        let locks = Locks::builder().redlock([first].into_iter().chain(others)).build().unwrap();
        if missing == "+scan" {
            // The locks are then connected to a majority of the servers.
            locks.write(&Item(1)).acquire().await.unwrap().release().await.unwrap();
            locks.list(1).await.unwrap_err();
        }
        locks
    })
    .await;
}
