use std::{slice, sync::Arc, time::Duration};

use futures_util::FutureExt;
use stockade_testbed::Fault;
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

use super::{LIMIT, RedlockStore, Settings, World, connected, granted, handles, is_no_quorum, key, once, until, write};
use crate::{
    clock::Instant,
    redis::eventually,
    store::{Attempt, LockError, LockStore, Mode, Released, Unavailable, conformance::opened},
};

/// The command timeout. While a quorum answers, nobody may wait that long for a frozen server.
const COMMAND: Duration = Duration::from_millis(250);

#[tokio::test]
async fn a_frozen_minority_delays_nobody_and_keeps_nothing() {
    let world = World::start(5).await;
    let store = world.store().await;
    let held = store.acquire(write(&key("held"))).await.unwrap();
    world.until_held_everywhere().await;
    for server in &world.servers[..2] {
        server.pause().unwrap();
    }
    // Enough rounds that the breakers of the frozen servers open halfway.
    let mut took = Vec::new();
    for n in 0..10 {
        let since = Instant::now();
        let taken = store.acquire(once(&key(&format!("new{n}")))).await.unwrap();
        store.renew(slice::from_ref(&held)).await.unwrap();
        assert_eq!(store.release(&taken).await.unwrap(), Released::Released);
        took.push(since.elapsed());
        assert!(held.loss().is_none());
    }
    // A store that waits for the frozen servers is slow in every round; a machine that stalls is slow in few.
    for took in took.chunks(5) {
        assert!(
            took.iter().min().is_some_and(|quickest| *quickest < COMMAND),
            "each waited for a frozen server: {took:?}"
        );
    }
    for server in &world.servers[..2] {
        server.resume().unwrap();
    }
    assert_eq!(store.release(&held).await.unwrap(), Released::Released);
    world.until_all_are_free().await;
    world.end().await;
}

#[tokio::test]
async fn a_late_grant_of_a_lock_that_was_won_stays_until_the_release() {
    let world = World::start(3).await;
    let (store, proxies) = world.store_behind_proxies().await;
    proxies[2].set(Fault::Delay(Duration::from_millis(150)));
    let held = store.acquire(write(&key("late"))).await.unwrap();
    assert!(world.keys(2).await.is_empty(), "it was waited for");
    world.until_held_everywhere().await;
    assert_eq!(store.release(&held).await.unwrap(), Released::Released);
    world.until_all_are_free().await;
    world.end_behind(proxies).await;
}

#[tokio::test]
async fn a_hanging_majority_fails_in_time_and_leaves_nothing() {
    let world = World::start(5).await;
    let store = world.store().await;
    for server in &world.servers[..3] {
        server.pause().unwrap();
    }
    let since = Instant::now();
    // The lease outlives the test, so a lock that is left behind stays visible.
    let refused = store.acquire(Attempt { lease: Duration::from_secs(100), ..once(&key("hangs")) }).await;
    assert!(is_no_quorum(&refused), "{refused:?}");
    assert!(since.elapsed() < COMMAND * 8, "{:?}", since.elapsed());
    for server in [3, 4] {
        world.until_free(server).await;
    }
    for server in &world.servers[..3] {
        server.resume().unwrap();
    }
    let after = granted(&store, once(&key("after"))).await;
    store.release(&after).await.unwrap();
    store.shutdown(LIMIT).await;
    for server in 0..5 {
        world.until(server, |keys| !keys.iter().any(|key| key.ends_with("hangs"))).await;
    }
    world.end().await;
}

#[tokio::test]
async fn refusals_come_at_once_while_the_breakers_of_a_majority_are_open() {
    let world = World::start(3).await;
    let store = world.store().await;
    let key = key("refused");
    for server in &world.servers[..2] {
        server.pause().unwrap();
    }
    for _ in 0..10 {
        assert!(is_no_quorum(&store.acquire(once(&key)).await));
    }
    assert!(store.refusing(&key).is_some());
    assert!(is_no_quorum(&store.acquire(write(&key)).now_or_never().expect("it waited")));
    world.servers[0].resume().unwrap();
    until("a quorum", || store.refusing(&key).is_none()).await;
    // It waits, since the server may still have what an attempt asked of it while it stood still.
    let held = granted(&store, write(&key)).await;
    world.servers[1].resume().unwrap();
    store.release(&held).await.unwrap();
    world.end().await;
}

#[tokio::test]
async fn an_attempt_that_failed_gives_back_before_it_pauses() {
    let world = World::start(3).await;
    let pauses = Duration::from_secs(60);
    let store = world.store_with(Settings { retry: pauses..=pauses, ..Settings::default() }).await;
    let other = world.store().await;
    let key = key("pauses");
    let held = other.acquire(write(&key)).await.unwrap();
    world.until_held_everywhere().await;
    world.command(2, &["FLUSHALL"]).await;
    world.command(2, &["CONFIG", "RESETSTAT"]).await;
    let mut waiting = store.acquire(write(&key));
    assert!((&mut waiting).now_or_never().is_none());
    let given_back = async {
        // The attempt took the third server; the others refused it.
        while world.servers[2].calls_of("evalsha").await.unwrap() < 2 {
            sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::select! {
        ended = &mut waiting => panic!("{ended:?}"),
        ended = timeout(LIMIT, given_back) => ended.expect("it keeps what it does not need"),
    }
    assert!(world.keys(2).await.is_empty());
    drop(waiting);
    other.release(&held).await.unwrap();
    world.until_all_are_free().await;
    world.end().await;
}

#[tokio::test]
async fn a_majority_that_is_gone_and_a_majority_that_is_held_are_told_apart() {
    let world = World::start(3).await;
    let (store, other) = (world.store().await, world.store().await);
    let key = key("apart");
    let held = other.acquire(write(&key)).await.unwrap();
    world.until_held_everywhere().await;
    let busy = store.acquire(once(&key)).await;
    assert!(matches!(busy, Err(LockError::Busy { .. })), "{busy:?}");
    world.servers[0].kill().await.unwrap();
    until("the end of a link", || !store.inner.nodes[0].link.is_up()).await;
    let busy = store.acquire(once(&key)).await;
    assert!(matches!(busy, Err(LockError::Busy { .. })), "a minority is gone: {busy:?}");
    world.servers[1].kill().await.unwrap();
    until("the end of a link", || !store.inner.nodes[1].link.is_up()).await;
    assert!(!store.is_up());
    let gone = store.acquire(once(&key)).await;
    assert!(is_no_quorum(&gone), "{gone:?}");
    assert!(other.release(&held).await.is_err());
    world.end().await;
}

#[tokio::test]
async fn the_release_of_a_lock_that_was_extended_for_long_is_repeated() {
    let world = World::start(3).await;
    let (store, proxies) = world.store_behind_proxies().await;
    let lease = Duration::from_secs(2);
    let held = store.acquire(Attempt { lease, ..write(&key("long")) }).await.unwrap();
    world.until_held_everywhere().await;
    // Longer than a value that is not extended could stay.
    let since = Instant::now();
    while since.elapsed() < lease * 2 {
        store.renew(slice::from_ref(&held)).await.unwrap();
        sleep(lease / 10).await;
    }
    store.renew(slice::from_ref(&held)).await.unwrap();
    let extended = Instant::now();
    proxies.iter().for_each(|proxy| proxy.set(Fault::Reset));
    until("the connections are lost", || store.inner.nodes.iter().all(|node| !node.link.is_up())).await;
    assert!(store.release(&held).await.is_err());
    proxies.iter().for_each(|proxy| proxy.set(Fault::None));
    world.until_all_are_free().await;
    assert!(extended.elapsed() < lease, "it ended with its lease only");
    world.end_behind(proxies).await;
}

#[tokio::test]
async fn a_release_does_not_wait_for_a_crowd_of_attempts() {
    let world = World::start(3).await;
    let (store, proxies) = world.store_behind_proxies().await;
    let key = key("crowd");
    let held = store.acquire(write(&key)).await.unwrap();
    world.until_held_everywhere().await;
    // So slow that more attempts are under way all the time than the window of a connection has places.
    proxies.iter().for_each(|proxy| proxy.set(Fault::Delay(Duration::from_millis(60))));
    let mut crowd = JoinSet::new();
    for _ in 0..300 {
        let (store, attempt) = (Arc::clone(&store), write(&key));
        crowd.spawn(async move { store.acquire(attempt).await });
    }
    world.command(0, &["CONFIG", "RESETSTAT"]).await;
    let asked = async || world.servers[0].calls_of("evalsha").await.unwrap() >= 600;
    eventually("each has asked twice", asked).await;
    assert_eq!(store.release(&held).await.unwrap(), Released::Released);
    crowd.shutdown().await;
    world.until_all_are_free().await;
    world.end_behind(proxies).await;
}

#[tokio::test]
async fn one_server_under_three_addresses_is_no_quorum() {
    let world = World::start(1).await;
    let urls = vec![world.servers[0].url(); 3];
    let store = opened(RedlockStore::open(&handles(&urls).await, Settings::default()));
    until("a connection", || store.inner.nodes.iter().any(|node| node.link.is_up())).await;
    let limit = Instant::now() + LIMIT;
    let mut told = 0;
    while told < 20 {
        let refused = store.acquire(once(&key("alone"))).await.unwrap_err();
        // The error names the cause once all connections were tried.
        match &refused {
            LockError::Unavailable { reason: Unavailable::Unfit { said }, .. } => {
                assert!(said.contains("the same server twice"), "{refused}");
                told += 1;
            }
            LockError::Unavailable { reason: Unavailable::NoQuorum, .. } => {}
            _ => panic!("{refused}"),
        }
        assert!(Instant::now() < limit, "{refused}");
        sleep(Duration::from_millis(10)).await;
    }
    assert!(!store.is_up());
    world.until_free(0).await;
    world.end().await;
}

#[tokio::test]
async fn a_client_that_slept_through_its_lease_gets_no_lock() {
    let world = World::start(3).await;
    let store = world.store().await;
    let lease = Duration::from_millis(300);
    let mut attempt = store.acquire(Attempt { lease, ..once(&key("sleeps")) });
    // The round is sent, and its answers arrive while the client sleeps.
    assert!((&mut attempt).now_or_never().is_none());
    sleep(lease).await;
    let refused = attempt.await;
    assert!(is_no_quorum(&refused), "{refused:?}");
    world.until_all_are_free().await;

    // An attempt with a wait is granted in a later round.
    let mut attempt = store.acquire(Attempt { lease, ..write(&key("sleeps")) });
    assert!((&mut attempt).now_or_never().is_none());
    sleep(lease).await;
    let held = attempt.await.unwrap();
    assert!(held.loss().is_none());
    store.release(&held).await.unwrap();
    world.end().await;
}

#[tokio::test]
async fn the_lease_counts_from_before_the_first_command_whatever_each_server_takes() {
    let world = World::start(5).await;
    let (store, proxies) = world.store_behind_proxies().await;
    let delays = [0, 20, 40, 60];
    for (proxy, delay) in proxies.iter().zip(delays) {
        proxy.set(Fault::Delay(Duration::from_millis(delay)));
    }
    proxies[4].set(Fault::Hole);
    let lease = Duration::from_secs(4);
    let sent = Instant::now();
    let held = store.acquire(Attempt { lease, ..once(&key("slow")) }).await.unwrap();
    let took = sent.elapsed();
    assert!(took >= Duration::from_millis(80), "a quorum can't have answered within {took:?}");
    assert!(held.deadline() > Instant::now() && held.deadline() <= sent + lease - lease / 100, "{held:?}");
    let (before, sent) = (held.deadline(), Instant::now());
    store.renew(slice::from_ref(&held)).await.unwrap();
    assert!(sent.elapsed() >= Duration::from_millis(80));
    assert!(held.deadline() > before && held.deadline() <= Instant::now() - sent.elapsed() + lease);
    store.release(&held).await.unwrap();
    proxies[4].set(Fault::None);
    world.until_all_are_free().await;
    world.end_behind(proxies).await;
}

#[tokio::test]
async fn a_shutdown_waits_for_what_has_to_be_undone() {
    let world = World::start(3).await;
    let (store, proxies) = world.store_behind_proxies().await;
    proxies.iter().for_each(|proxy| proxy.set(Fault::DropReplies));
    let mut attempt = store.acquire(once(&key("undone")));
    assert!((&mut attempt).now_or_never().is_none());
    world.until_held_everywhere().await;
    // With the connections goes the order that could undo the round at once.
    proxies.iter().for_each(|proxy| proxy.set(Fault::None));
    let failed = attempt.await;
    assert!(is_no_quorum(&failed), "{failed:?}");
    store.shutdown(LIMIT).await;
    for server in 0..3 {
        assert!(world.keys(server).await.is_empty());
    }
    let refused = store.acquire(once(&key("undone"))).await;
    assert!(matches!(refused, Err(LockError::ShuttingDown)), "{refused:?}");
    world.end_behind(proxies).await;
}

#[tokio::test]
async fn a_shutdown_ends_those_who_wait() {
    let world = World::start(3).await;
    let pauses = Duration::from_secs(60);
    let store = world.store_with(Settings { retry: pauses..=pauses, ..Settings::default() }).await;
    let other = world.store().await;
    let (key, another) = (key("closing"), key("another"));
    let held = other.acquire(write(&key)).await.unwrap();
    let (ended, ()) = tokio::join!(store.acquire(write(&key)), async {
        // This goes out behind the attempt on the same connections: once it is granted, the attempt was refused and
        // waits.
        let behind = granted(&store, once(&another)).await;
        store.release(&behind).await.unwrap();
        store.shutdown(Duration::from_secs(1)).await;
    });
    assert!(matches!(ended, Err(LockError::ShuttingDown)), "{ended:?}");
    other.release(&held).await.unwrap();
    world.end().await;
}

#[tokio::test]
async fn shared_mode_is_refused_before_anything_is_sent() {
    let world = World::start(3).await;
    let store = connected(&handles(&world.urls()).await, Settings::default()).await;
    world.command(0, &["CONFIG", "RESETSTAT"]).await;
    let refused = store.acquire(Attempt { mode: Mode::Read, ..write(&key("read")) }).await;
    assert!(matches!(refused, Err(LockError::Unsupported { store: "redlock", .. })), "{refused:?}");
    assert_eq!(world.servers[0].calls_of("evalsha").await.unwrap(), 0);
    world.end().await;
}
