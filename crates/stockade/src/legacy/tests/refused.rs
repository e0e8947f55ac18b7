//! Keys, values, durations and servers that are refused.

use std::time::Duration;

use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use super::support::{KEY, LIMIT, World, lock};
use crate::{
    legacy::{SetnxError, SetnxLocks, Unit},
    lock::Unavailable,
    redis::Redis,
};

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
    // Read in its own unit, the value is a lock that is held.
    world.command(&["SET", KEY, &millis.to_string()]).await;
    assert!(lock(&locks.unit(Unit::Millis)).try_acquire().await.unwrap().is_none());
}

/// The URL names a cluster, so no server is needed.
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
