use std::{slice, sync::Arc, time::Duration};

use futures_util::FutureExt;
use stockade_testbed::{Fault, Proxy, RedisServer};
use tokio::time::timeout;

use super::{
    LIMIT, Options, RedisStore, World, calls_of, connected, connected_with, key, read, server, until, until_waiting,
    waiting, write,
};
use crate::{
    lock::Locks,
    redis::{Redis, Replicas, eventually},
    store::{Attempt, Force, LockError, LockStore, Mode, Unavailable},
};

/// A primary and its replica, in step.
struct Pair {
    world: World,
    replica: RedisServer,
}

/// Waits until the server has a replica in step.
async fn in_step(primary: &RedisServer) {
    let replication = async || primary.command(&["INFO", "replication"]).await.unwrap();
    eventually("replication", async || replication().await.contains("state=online")).await;
}

/// A store that wants every grant on a replica within this time.
async fn replicated(primary: &RedisServer, time: Duration) -> Arc<RedisStore> {
    let redis = Redis::builder(primary.url()).command_timeout(time * 2).connect().await.unwrap();
    let replicas = Some(Replicas { count: 1, timeout: time });
    connected_with(&redis, Options { replicas, ..Options::default() }).await
}

impl Pair {
    async fn start() -> Self {
        let primary = RedisServer::start().await.unwrap();
        let replica = RedisServer::builder().replica_of(&primary).start().await.unwrap();
        in_step(&primary).await;
        Self { world: World::on(primary), replica }
    }

    async fn store(&self) -> Arc<RedisStore> {
        replicated(&self.world.server, TIME).await
    }

    async fn calls(&self, command: &str) -> u64 {
        calls_of(&self.world.command(&["INFO", "commandstats"]).await, command)
    }
}

const TIME: Duration = Duration::from_secs(1);

fn is_unreplicated<T>(result: &Result<T, LockError>) -> bool {
    matches!(result, Err(LockError::Unavailable { reason: Unavailable::Unreplicated, .. }))
}

#[tokio::test]
async fn a_grant_that_no_replica_confirms_is_given_back() {
    let pair = Pair::start().await;
    let store = pair.store().await;
    pair.world.command(&["CONFIG", "RESETSTAT"]).await;
    let held = store.acquire(write(&key("confirmed"))).await.unwrap();
    assert_eq!((pair.calls("evalsha").await, pair.calls("wait").await), (1, 1));
    store.release(&held).await.unwrap();
    pair.replica.pause().unwrap();
    for attempt in [write(&key("alone")), Attempt { wait: Duration::ZERO, ..write(&key("alone")) }, read(&key("alone"))]
    {
        let refused = store.acquire(attempt).await;
        assert!(is_unreplicated(&refused), "{refused:?}");
        pair.world.until_nothing_is_left().await;
    }
    let locks = Locks::builder().on(Arc::<RedisStore>::clone(&store));
    let several = locks.write_keys(["alone", "too"].map(key)).acquire().await;
    assert!(is_unreplicated(&several), "{several:?}");
    pair.replica.resume().unwrap();
    let again = timeout(LIMIT, store.acquire(write(&key("alone")))).await.unwrap().unwrap();
    store.release(&again).await.unwrap();
    pair.world.end().await;
}

#[tokio::test]
async fn renewals_wait_for_no_replica() {
    let pair = Pair::start().await;
    let store = pair.store().await;
    let held = store.acquire(write(&key("renewed"))).await.unwrap();
    pair.replica.pause().unwrap();
    pair.world.command(&["CONFIG", "RESETSTAT"]).await;
    store.renew(slice::from_ref(&held)).await.unwrap();
    assert_eq!((pair.calls("evalsha").await, pair.calls("wait").await), (1, 0));
    pair.replica.resume().unwrap();
    store.release(&held).await.unwrap();
    pair.world.end().await;
}

#[tokio::test]
async fn renewals_wait_for_no_grant_that_a_replica_has_to_confirm() {
    const CONFIRMED_WITHIN: Duration = Duration::from_secs(8);
    let pair = Pair::start().await;
    let store = replicated(&pair.world.server, CONFIRMED_WITHIN).await;
    let other = connected(&Redis::connect(pair.world.server.url()).await.unwrap()).await;
    let (quiet, contended) = (key("quiet"), key("contended"));
    let quiet = store.acquire(write(&quiet)).await.unwrap();
    store.renew(slice::from_ref(&quiet)).await.unwrap();
    until("a renewal connection", || server(&store).link.renewals_are_up()).await;
    let held = other.acquire(write(&contended)).await.unwrap();
    let waiter = waiting(&store, write(&contended));
    until_waiting(&other, &contended, 1).await;
    pair.replica.pause().unwrap();
    other.release(&held).await.unwrap();
    let clients = async || pair.world.command(&["INFO", "clients"]).await;
    eventually("a grant to confirm", async || clients().await.contains("blocked_clients:1")).await;
    let before = quiet.deadline();
    let renewed = timeout(CONFIRMED_WITHIN / 2, store.renew(slice::from_ref(&quiet))).await;
    renewed.expect("it waits behind the grant").unwrap();
    assert!(quiet.deadline() > before);
    pair.replica.resume().unwrap();
    let entered = timeout(LIMIT, waiter).await.unwrap().unwrap().unwrap();
    for held in [entered, quiet] {
        store.release(&held).await.unwrap();
    }
    pair.world.end().await;
}

#[tokio::test]
async fn a_lock_that_is_handed_over_is_entered_when_a_replica_has_it() {
    let pair = Pair::start().await;
    let (store, other) = (pair.store().await, connected(&Redis::connect(pair.world.server.url()).await.unwrap()).await);
    let key = key("handed-over");
    for alone in [false, true] {
        let held = other.acquire(write(&key)).await.unwrap();
        let mut waiter = store.acquire(write(&key));
        assert!((&mut waiter).now_or_never().is_none());
        until_waiting(&other, &key, 1).await;
        assert!((&mut waiter).now_or_never().is_none());
        pair.world.command(&["CONFIG", "RESETSTAT"]).await;
        if alone {
            pair.replica.pause().unwrap();
        }
        other.release(&held).await.unwrap();
        let entered = timeout(LIMIT, waiter).await.unwrap();
        if alone {
            assert!(is_unreplicated(&entered), "{entered:?}");
        } else {
            // Two scripts, the release and a renewal, and one WAIT behind the renewal.
            assert_eq!((pair.calls("evalsha").await, pair.calls("wait").await), (2, 1));
            store.release(&entered.unwrap()).await.unwrap();
        }
        pair.world.until_nothing_is_left().await;
    }
    pair.replica.resume().unwrap();
    pair.world.end().await;
}

/// The replica is far away. It has the grant in time only because the store waits for it behind the grant.
#[tokio::test]
async fn a_failover_to_the_replica_that_confirmed_keeps_the_holder() {
    let primary = RedisServer::start().await.unwrap();
    let proxy = Proxy::start(primary.addr()).await.unwrap();
    let of = ["--replicaof".to_owned(), "127.0.0.1".to_owned(), proxy.addr().port().to_string()];
    let world = World::on(RedisServer::builder().args(of).start().await.unwrap());
    in_step(&primary).await;
    proxy.set(Fault::Delay(Duration::from_millis(150)));
    let store = replicated(&primary, Duration::from_secs(5)).await;
    let key = key("kept");
    let held = timeout(LIMIT, store.acquire(write(&key))).await.unwrap().unwrap();
    primary.kill().await.unwrap();
    world.command(&["REPLICAOF", "NO", "ONE"]).await;
    let after = world.store().await;
    let inspection = after.inspect(&key).await.unwrap();
    assert_eq!(inspection.holders.first().and_then(|holder| holder.token), Some(held.token), "{inspection:?}");
    let second = after.acquire(Attempt { wait: Duration::ZERO, mode: Mode::Read, ..write(&key) }).await;
    assert!(matches!(second, Err(LockError::Busy { .. })), "{second:?}");
    after.force(&key, Force::Now).await.unwrap();
    world.end().await;
}

#[tokio::test]
async fn a_renewal_that_no_replica_confirms_loses_no_lock() {
    let pair = Pair::start().await;
    let store = pair.store().await;
    let held = store.acquire(write(&key("renewed"))).await.unwrap();
    pair.replica.pause().unwrap();
    let before = held.deadline();
    store.renew(slice::from_ref(&held)).await.unwrap();
    assert!(held.deadline() > before && held.loss().is_none());
    pair.replica.resume().unwrap();
    store.release(&held).await.unwrap();
    pair.world.end().await;
}
