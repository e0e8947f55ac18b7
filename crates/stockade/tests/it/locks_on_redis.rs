//! Locks of two processes on a real Redis that is stopped, killed and counted.

use std::time::Duration;

use stockade::{
    Locks, Redis,
    lock::{Force, LockError, LossReason, Released},
};
use stockade_testbed::eventually;
use tokio::{runtime::Builder, task::JoinSet, time::Instant};

use crate::{
    redis_traffic::scripts,
    resources::Sku,
    world::{World, waiting},
};

const LIMIT: Duration = Duration::from_secs(20);
const LEASE: Duration = Duration::from_secs(1);

/// The keys of locks that are left, without the floors. A bucket keeps one floor for all its locks.
async fn keys(server: &World) -> Vec<String> {
    let keys = server.command(&["KEYS", "*"]).await.unwrap();
    keys.split_whitespace()
        .filter(|key| ["l:", "q:", "w:", "m:"].iter().any(|part| key.contains(part)))
        .map(str::to_owned)
        .collect()
}

#[test]
fn locks_whose_runtime_has_ended_say_so_at_once() {
    let runtime = || Builder::new_current_thread().enable_all().build().unwrap();
    let (lasting, short) = (runtime(), runtime());
    let world = lasting.block_on(World::start());
    let locks = short.block_on(async {
        let locks = Locks::new(&Redis::connect(world.url()).await.unwrap());
        locks.write(&Sku("1")).acquire().await.unwrap().release().await.unwrap();
        locks
    });
    drop(short);
    let refused = lasting.block_on(locks.write(&Sku("1")).wait(LIMIT).acquire()).unwrap_err();
    assert!(refused.to_string().contains("connect in a runtime that lasts"), "{refused}");
    drop(locks);
    lasting.block_on(world.end());
}

#[tokio::test]
async fn the_first_acquire_waits_for_the_first_connection() {
    let server = World::start().await;
    for _ in 0..20 {
        let locks = server.opened(Locks::new(&Redis::connect(server.url()).await.unwrap()));
        let guard = locks.write(&Sku("1")).wait(Duration::from_secs(1)).acquire().await.unwrap();
        guard.release().await.unwrap();
        locks.shutdown(Duration::from_secs(1)).await;
    }
    server.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_of_one_process_keeps_out_another_and_leaves_nothing() {
    let server = World::start().await;
    let (one, two) = (server.locks().await, server.locks().await);
    let guard = one.write(&Sku("1")).lease(LEASE).tag("one").acquire().await.unwrap();
    assert!(two.read(&Sku("1")).try_acquire().await.unwrap().is_none());
    // The lock is held far beyond its lease, since it is renewed.
    let refused = two.write(&Sku("1")).wait(LEASE * 3).acquire().await;
    assert!(matches!(refused, Err(LockError::Timeout { .. })), "{refused:?}");
    assert!(guard.is_held());
    assert_eq!(two.inspect("stock:1").await.unwrap().holders[0].tag, "one");
    assert_eq!(keys(&server).await.len(), 1);
    let inner = guard.reenter();
    assert_eq!(guard.release().await.unwrap(), Released::StillHeld);
    assert!(two.write(&Sku("1")).try_acquire().await.unwrap().is_none());
    let token = inner.token();
    assert_eq!(inner.release().await.unwrap(), Released::Released);
    let next = two.write(&Sku("1")).acquire().await.unwrap();
    assert!(next.token() > token);
    drop(next);
    eventually("no key is left", async || keys(&server).await.is_empty()).await;
    server.end().await;
}

#[test]
fn a_guard_dropped_outside_of_a_runtime_releases() {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let server = runtime.block_on(World::start());
    let locks = runtime.block_on(server.locks());
    let guard = runtime.block_on(locks.write(&Sku("1")).acquire()).unwrap();
    drop(guard);
    let next = runtime.block_on(locks.write(&Sku("1")).wait(Duration::from_secs(5)).acquire());
    assert!(next.is_ok(), "{next:?}");
    drop(next);
    runtime.block_on(server.end());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hand_over_wakes_one_waiter_and_costs_the_others_no_command() {
    const WAITERS: u64 = 100;
    let server = World::start().await;
    let (one, two) = (server.locks().await, server.locks().await);
    let guard = one.write(&Sku("1")).acquire().await.unwrap();
    let mut tasks = JoinSet::new();
    for n in 0..WAITERS {
        let locks = if n % 2 == 0 { &one } else { &two };
        let request = locks.write(&Sku("1")).wait(LIMIT);
        tasks.spawn(async move { request.acquire().await.unwrap().release().await.unwrap() });
    }
    waiting(&one, "stock:1", WAITERS).await;
    let before = scripts(&server).await;
    let since = Instant::now();
    guard.release().await.unwrap();
    while let Some(released) = tasks.join_next().await {
        assert_eq!(released.unwrap(), Released::Released);
    }
    let took = since.elapsed();
    let calls = scripts(&server).await - before;
    // Each waiter sends one release, and one renewal if its grant took long to arrive. There may be a few polls, too.
    assert!(calls >= WAITERS, "{calls} scripts: not counted");
    assert!(calls <= WAITERS * 2 + took.as_secs() * 2 + 10, "{calls} scripts for {WAITERS} hand-overs");
    eventually("no key is left", async || keys(&server).await.is_empty()).await;
    server.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_server_fails_attempts_at_once_and_tells_holders_in_time() {
    let server = World::start().await;
    let locks = server.locks().await;
    let guard = locks.write(&Sku("1")).lease(LEASE).acquire().await.unwrap();
    server.pause().unwrap();
    let since = Instant::now();
    let refused = locks.write(&Sku("2")).acquire().await;
    assert!(matches!(refused, Err(LockError::Unavailable { .. })), "{refused:?}");
    assert!(since.elapsed() < Duration::from_secs(1), "took {:?}", since.elapsed());
    let lost = tokio::time::timeout(LEASE + Duration::from_secs(1), guard.lost()).await;
    assert_eq!(lost.expect("not told"), LossReason::Expired);
    server.resume().unwrap();
    eventually("all recovers", async || locks.write(&Sku("1")).try_acquire().await.is_ok_and(|guard| guard.is_some()))
        .await;
    drop(guard);
    eventually("no key is left", async || keys(&server).await.is_empty()).await;
    server.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_freeze_costs_no_lock() {
    let server = World::start().await;
    let (one, two) = (server.locks().await, server.locks().await);
    let lease = LEASE * 3;
    let guard = one.write(&Sku("1")).lease(lease).acquire().await.unwrap();
    // The server stands still while the first renewal is due, and the lease leaves time for another.
    tokio::time::sleep(lease / 4).await;
    server.pause().unwrap();
    tokio::time::sleep(lease / 4).await;
    server.resume().unwrap();
    let refused = two.write(&Sku("1")).wait(lease).acquire().await;
    assert!(refused.is_err() && guard.is_held(), "{refused:?} {:?}", guard.loss());
    assert_eq!(guard.release().await.unwrap(), Released::Released);
    server.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_without_data_is_told_and_tokens_go_on_rising() {
    let server = World::start().await;
    let locks = server.locks().await;
    let guard = locks.write(&Sku("1")).acquire().await.unwrap();
    server.kill().await.unwrap();
    server.restart().await.unwrap();
    let lost = tokio::time::timeout(LIMIT, guard.lost()).await;
    assert_eq!(lost.expect("not told"), LossReason::StoreLostData);
    let mut next = None;
    eventually("served again", async || {
        next = locks.write(&Sku("1")).acquire().await.ok();
        next.is_some()
    })
    .await;
    assert!(next.is_some_and(|next| next.token() > guard.token()));
    server.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_outlive_a_restart_without_data() {
    let server = World::start().await;
    let (one, two) = (server.locks().await, server.locks().await);
    let guard = one.write(&Sku("1")).acquire().await.unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(two.write(&Sku("1")).wait(LIMIT).acquire());
    // The waiter's own connection sees the waiter, so the reply with its place has arrived, too. An attempt without any
    // reply would fail.
    waiting(&two, "stock:1", 1).await;
    server.kill().await.unwrap();
    server.restart().await.unwrap();
    let next = tasks.join_next().await.unwrap().unwrap().expect("not granted");
    assert!(next.token() > guard.token());
    assert_eq!(tokio::time::timeout(LIMIT, guard.lost()).await.expect("not told"), LossReason::StoreLostData);
    server.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forced_release_reaches_the_holder_in_another_process() {
    let server = World::start().await;
    let (one, two) = (server.locks().await, server.locks().await);
    let guard = one.write(&Sku("1")).acquire().await.unwrap();
    let since = Instant::now();
    let forced = two.force_release("stock:1", Force::Now).await.unwrap();
    assert_eq!(tokio::time::timeout(LIMIT, guard.lost()).await.expect("not told"), LossReason::Forced);
    // The holder hears of it well before its next renewal.
    assert!(since.elapsed() < Duration::from_secs(2), "took {:?}", since.elapsed());
    assert_eq!((forced.holders, guard.release().await.unwrap()), (1, Released::Lost));
    server.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_releases_hands_over_and_closes_its_connections() {
    let server = World::start().await;
    let (one, two) = (server.locks().await, server.locks().await);
    let guard = one.write(&Sku("1")).acquire().await.unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(two.write(&Sku("1")).wait(LIMIT).acquire());
    waiting(&two, "stock:1", 1).await;
    assert!(server.command(&["CLIENT", "LIST"]).await.unwrap().contains("name=stockade"));
    one.shutdown(Duration::from_millis(300)).await;
    assert_eq!(guard.loss(), Some(LossReason::Forced));
    let next = tasks.join_next().await.unwrap().unwrap().expect("not handed over");
    assert!(matches!(one.write(&Sku("2")).acquire().await, Err(LockError::ShuttingDown)));
    drop(guard);
    assert!(next.is_held());
    next.release().await.unwrap();
    two.shutdown(Duration::from_secs(1)).await;
    eventually("no connection is left", async || {
        let clients = server.command(&["CLIENT", "LIST"]).await.unwrap();
        !clients.contains("name=stockade")
    })
    .await;
    assert_eq!(keys(&server).await, [""; 0]);
    server.end().await;
}

#[tokio::test]
async fn a_shutdown_does_not_wait_for_a_server_that_does_not_answer() {
    let server = World::start().await;
    let locks = server.locks().await;
    server.pause().unwrap();
    assert!(matches!(locks.write(&Sku("1")).acquire().await, Err(LockError::Unavailable { .. })));
    let began = Instant::now();
    locks.shutdown(Duration::from_secs(30)).await;
    let took = began.elapsed();
    assert!(took < Duration::from_secs(8), "an attempt without an answer ends by itself, {took:?}");
    server.resume().unwrap();
    server.end().await;
}
