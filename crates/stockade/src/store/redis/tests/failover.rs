//! The store behind sentinels, while they replace the primary.

use std::{slice, sync::Arc, time::Duration};

#[cfg(feature = "tls")]
use stockade_testbed::Certificates;
use stockade_testbed::{RedisServer, SentinelGroup};
use tokio::{
    sync::mpsc,
    time::{sleep, timeout},
};
use tokio_util::task::TaskTracker;

use super::{LIMIT, connected, key, server, until, until_waiting, waiting, yielding};
#[cfg(feature = "tls")]
use crate::redis::TlsOptions;
use crate::{
    redis::{Redis, eventually, retried},
    resource::Key,
    store::{
        Attempt, LockStore, LossReason, Recall, Released,
        conformance::{self, Ending},
        redis::RedisStore,
    },
};

/// Shuts the stores down, and checks that they leave no keys, subscriptions or connections.
async fn end(group: SentinelGroup) {
    conformance::end(Ending::due(), &group, ()).await;
}

/// An attempt whose lease is longer than any failover. On a busy machine sentinels are slow, and they need some ten
/// seconds to make an old primary a replica.
fn write(key: &Key) -> Attempt {
    Attempt { lease: LIMIT * 3, ..super::write(key) }
}

fn read(key: &Key) -> Attempt {
    Attempt { lease: LIMIT * 3, ..super::read(key) }
}

async fn redis(group: &SentinelGroup) -> Redis {
    Redis::connect(group.url()).await.unwrap()
}

async fn start() -> (SentinelGroup, Arc<RedisStore>) {
    let group = SentinelGroup::start().await.unwrap();
    let store = connected(&redis(&group).await).await;
    (group, store)
}

/// Replaces the primary, and waits until the store is connected to the new one.
async fn fail_over(group: &SentinelGroup, store: &RedisStore) {
    let before = server(store).link.generation();
    group.failover().await.unwrap();
    until_moved(store, before).await;
}

async fn has(server: &RedisServer, store: &RedisStore, key: &Key) -> bool {
    let names = store.inner.keys.of(key);
    server.command(&["EXISTS", &names[0]]).await.unwrap() == "1"
}

async fn expiry(server: &RedisServer, store: &RedisStore, key: &Key) -> u64 {
    server.command(&["PEXPIRETIME", &store.inner.keys.of(key)[0]]).await.unwrap().parse().unwrap_or(0)
}

async fn until_everywhere(group: &SentinelGroup, store: &RedisStore, key: &Key) {
    for server in group.servers() {
        eventually("the lock on every server", async || has(server, store, key).await).await;
    }
}

/// Makes a server refuse its sentinels, which then can't make it a replica. All other clients are served.
async fn hide_from_sentinels(server: &RedisServer) {
    let rules = ["ACL", "SETUSER", "default", "-ping", "-info", "-replicaof", "-slaveof", "-multi"];
    server.command(&rules).await.unwrap();
}

async fn until_moved(store: &RedisStore, before: u64) {
    until("a connection to the new primary", || store.is_up() && server(store).link.generation() > before).await;
}

#[tokio::test]
async fn a_lock_that_was_replicated_is_kept_over_a_failover() {
    let (group, store) = start().await;
    let keys = [key("write"), key("read")];
    let held = [store.acquire(write(&keys[0])).await.unwrap(), store.acquire(read(&keys[1])).await.unwrap()];
    for key in &keys {
        until_everywhere(&group, &store, key).await;
    }
    fail_over(&group, &store).await;
    // On a slow machine the sentinels may have replaced the first successor meanwhile.
    let primary = group.primary().await.unwrap();
    for held in &held {
        let (deadline, expires) = (held.deadline(), expiry(primary, &store, &held.key).await);
        store.renew(slice::from_ref(held)).await.unwrap();
        assert!(held.loss().is_none() && held.deadline() > deadline);
        let later = expiry(primary, &store, &held.key).await;
        assert!(later > expires, "{later} after {expires} on {primary:?}, now {:?}", group.primary().await);
        assert_eq!(store.release(held).await.unwrap(), Released::Released);
    }
    let later = store.acquire(write(&keys[0])).await.unwrap();
    assert!(later.token > held[0].token);
    store.release(&later).await.unwrap();
    end(group).await;
}

#[tokio::test]
async fn what_gives_way_is_recalled_with_its_primary() {
    let (group, store) = start().await;
    let key = key("shared");
    let (attempt, readers) = yielding(read(&key));
    let held = store.acquire(attempt).await.unwrap();
    assert_eq!(readers.recalled(), None);
    until_everywhere(&group, &store, &key).await;
    let before = server(&store).link.generation();
    group.failover().await.unwrap();
    until("recalled", || readers.recalled() == Some(Recall::Disconnected)).await;
    until_moved(&store, before).await;
    assert_eq!(held.loss(), None, "the holder stays");
    store.release(&held).await.unwrap();
    end(group).await;
}

#[tokio::test]
async fn a_lock_that_the_old_primary_took_along_is_lost_and_tokens_still_rise() {
    let (group, store) = start().await;
    let (known, unknown) = (key("replicated"), key("not-replicated"));
    let kept = store.acquire(write(&known)).await.unwrap();
    until_everywhere(&group, &store, &known).await;
    group.cut_replication().await.unwrap();
    let lost = store.acquire(write(&unknown)).await.unwrap();
    let primary = group.failover().await.unwrap();
    assert!(!has(primary, &store, &unknown).await, "nothing was lost");
    assert_eq!(timeout(LIMIT, lost.lost()).await.unwrap(), LossReason::StoreLostData);
    assert!(kept.loss().is_none());
    until("a connection", || store.is_up()).await;
    let next = store.acquire(write(&unknown)).await.unwrap();
    assert!(next.token > lost.token);
    store.renew(slice::from_ref(&kept)).await.unwrap();
    for held in [&next, &kept] {
        assert_eq!(store.release(held).await.unwrap(), Released::Released);
    }
    end(group).await;
}

#[tokio::test]
async fn a_downgrade_that_the_old_primary_took_along_is_made_again() {
    let (group, store) = start().await;
    let key = key("downgraded");
    let held = store.acquire(write(&key)).await.unwrap();
    until_everywhere(&group, &store, &key).await;
    group.cut_replication().await.unwrap();
    store.downgrade(&held).await.unwrap();
    fail_over(&group, &store).await;
    // Much sooner than the lease ends.
    let reader = timeout(LIMIT, store.acquire(read(&key))).await.expect("the new primary keeps readers out").unwrap();
    assert_eq!(held.loss(), None);
    for held in [&reader, &held] {
        assert_eq!(store.release(held).await.unwrap(), Released::Released);
    }
    end(group).await;
}

#[tokio::test]
async fn waiters_keep_their_order_over_a_failover() {
    const WAITERS: u64 = 6;
    let group = SentinelGroup::start().await.unwrap();
    let redis = redis(&group).await;
    let stores = [connected(&redis).await, connected(&redis).await, connected(&redis).await];
    let key = key("queue");
    let held = stores[0].acquire(write(&key)).await.unwrap();
    let (served, mut order) = mpsc::channel(100);
    let tasks = TaskTracker::new();
    for number in 0..WAITERS {
        let store = Arc::clone(&stores[usize::try_from(number).unwrap() % stores.len()]);
        let (attempt, served) = (write(&key), served.clone());
        tasks.spawn(async move {
            let held = store.acquire(attempt).await.unwrap();
            served.send(number).await.unwrap();
            store.release(&held).await.unwrap();
        });
        until_waiting(&stores[0], &key, number + 1).await;
    }
    until_everywhere(&group, &stores[0], &key).await;
    let replicated = async || {
        for replica in group.replicas().await.unwrap() {
            let queue = &stores[0].inner.keys.of(&key)[2];
            if replica.command(&["ZCARD", queue]).await.unwrap() != WAITERS.to_string() {
                return false;
            }
        }
        true
    };
    eventually("the queue on every server", replicated).await;
    let before: Vec<_> = stores.iter().map(|store| server(store).link.generation()).collect();
    group.failover().await.unwrap();
    for (store, before) in stores.iter().zip(before) {
        until_moved(store, before).await;
    }
    assert!(held.loss().is_none());
    assert_eq!(stores[0].release(&held).await.unwrap(), Released::Released);
    for number in 0..WAITERS {
        assert_eq!(timeout(LIMIT, order.recv()).await.expect("a waiter is forgotten"), Some(number));
    }
    end(group).await;
}

#[tokio::test]
async fn a_waiter_whose_queue_was_lost_is_served() {
    let group = SentinelGroup::start().await.unwrap();
    let redis = redis(&group).await;
    let (holder, other) = (connected(&redis).await, connected(&redis).await);
    let key = key("lost-queue");
    group.cut_replication().await.unwrap();
    let held = holder.acquire(write(&key)).await.unwrap();
    let waiter = waiting(&other, write(&key));
    until_waiting(&holder, &key, 1).await;
    group.failover().await.unwrap();
    let next = timeout(LIMIT, waiter).await.unwrap().unwrap().unwrap();
    assert_eq!(timeout(LIMIT, held.lost()).await.unwrap(), LossReason::StoreLostData);
    assert!(next.token > held.token);
    other.release(&next).await.unwrap();
    end(group).await;
}

#[tokio::test]
async fn a_frozen_primary_is_left_and_finds_itself_replaced_when_it_thaws() {
    let (group, store) = start().await;
    let key = key("frozen");
    let held = store.acquire(write(&key)).await.unwrap();
    until_everywhere(&group, &store, &key).await;
    let before = server(&store).link.generation();
    let old = group.primary().await.unwrap();
    old.pause().unwrap();
    let primary = group.until_promoted_after(old).await.unwrap();
    until_moved(&store, before).await;
    store.renew(slice::from_ref(&held)).await.unwrap();
    let renewed = expiry(primary, &store, &key).await;
    let moved = server(&store).link.generation();
    old.resume().unwrap();
    group.until_settled().await.unwrap();
    assert_eq!(server(&store).link.generation(), moved, "it went back");
    store.renew(slice::from_ref(&held)).await.unwrap();
    assert!(held.loss().is_none() && expiry(primary, &store, &key).await > renewed);
    assert_eq!(store.release(&held).await.unwrap(), Released::Released);
    end(group).await;
}

#[tokio::test]
async fn nothing_is_renewed_on_an_old_primary_that_goes_on_answering() {
    let (group, store) = start().await;
    let (known, unknown) = (key("replicated"), key("not-replicated"));
    let kept = store.acquire(write(&known)).await.unwrap();
    until_everywhere(&group, &store, &known).await;
    group.cut_replication().await.unwrap();
    let lost = store.acquire(write(&unknown)).await.unwrap();
    // Renewals have a connection of their own by then.
    store.renew(&[Arc::clone(&kept), Arc::clone(&lost)]).await.unwrap();
    let before = server(&store).link.generation();
    let old = group.primary().await.unwrap();
    hide_from_sentinels(old).await;
    let primary = group.until_promoted_after(old).await.unwrap();
    until_moved(&store, before).await;
    assert_eq!(timeout(LIMIT, lost.lost()).await.unwrap(), LossReason::StoreLostData);
    assert!(has(old, &store, &unknown).await && !has(primary, &store, &unknown).await, "nothing to be misled by");
    let (there, here) = (expiry(old, &store, &known).await, expiry(primary, &store, &known).await);
    for _ in 0..5 {
        store.renew(slice::from_ref(&kept)).await.unwrap();
        sleep(Duration::from_millis(2)).await;
    }
    assert_eq!(expiry(old, &store, &known).await, there, "renewed on the old primary");
    assert!(expiry(primary, &store, &known).await > here && kept.loss().is_none());
    assert_eq!(store.release(&kept).await.unwrap(), Released::Released);
    end(group).await;
}

/// Every connection uses TLS: to the sentinels, to the old and the new primary, and between the servers.
#[cfg(feature = "tls")]
#[tokio::test]
async fn locks_over_tls_are_kept_over_a_failover_and_handed_over_after_it() {
    let certificates = Certificates::new().unwrap();
    let group = SentinelGroup::builder().mutual_tls(&certificates).start().await.unwrap();
    // Handshakes are slow in a debug build.
    let redis =
        Redis::builder(group.url()).tls(TlsOptions::mutual(&certificates)).command_timeout(Duration::from_secs(2));
    let redis = redis.connect().await.unwrap();
    let (holder, other) = (connected(&redis).await, connected(&redis).await);
    let key = key("encrypted");
    let held = holder.acquire(write(&key)).await.unwrap();
    holder.renew(slice::from_ref(&held)).await.unwrap();
    let waiter = waiting(&other, write(&key));
    until_waiting(&holder, &key, 1).await;
    until_everywhere(&group, &holder, &key).await;
    fail_over(&group, &holder).await;
    let deadline = held.deadline();
    holder.renew(slice::from_ref(&held)).await.unwrap();
    assert!(held.loss().is_none() && held.deadline() > deadline);
    until_waiting(&holder, &key, 1).await;
    assert_eq!(holder.release(&held).await.unwrap(), Released::Released);
    let next = timeout(LIMIT, waiter).await.expect("not told").unwrap().unwrap();
    assert!(next.token > held.token);
    assert_eq!(other.release(&next).await.unwrap(), Released::Released);
    end(group).await;
}

#[tokio::test]
async fn a_planned_switch_keeps_locks_and_refuses_nothing_for_long() {
    let (group, store) = start().await;
    let key = key("planned");
    let held = store.acquire(write(&key)).await.unwrap();
    until_everywhere(&group, &store, &key).await;
    let before = server(&store).link.generation();
    group.switch_over().await.unwrap();
    until_moved(&store, before).await;
    // The new connection may go to the old primary again, which closes all connections when it becomes a replica.
    retried(async || store.renew(slice::from_ref(&held)).await).await;
    assert!(held.loss().is_none());
    assert_eq!(store.release(&held).await.unwrap(), Released::Released);
    end(group).await;
}
