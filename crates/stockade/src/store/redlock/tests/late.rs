//! Answers and commands that come late.

use std::{sync::Arc, time::Duration};

use futures_util::FutureExt;
use stockade_testbed::Fault;
use tokio::time::timeout;

use super::{LIMIT, RedlockStore, Settings, World, connected, is_no_quorum, key, once, write};
use crate::{
    redis::{Redis, eventually},
    store::{Attempt, LockStore, Released, redis::tests::detour::Detour},
};

/// Longer than a test may take, so a lock that is left behind stays visible.
const LONG: Duration = Duration::from_secs(120);

#[tokio::test]
async fn answers_that_come_after_the_attempt_has_failed_are_undone() {
    let world = World::start(3).await;
    let (store, proxies) = world.store_behind_proxies().await;
    for proxy in &proxies[..2] {
        proxy.set(Fault::Hole);
    }
    for server in 0..3 {
        world.command(server, &["CONFIG", "RESETSTAT"]).await;
    }
    let refused = store.acquire(Attempt { lease: LONG, ..once(&key("late")) }).await;
    assert!(is_no_quorum(&refused), "{refused:?}");
    // The request and the release behind it are still on their way to these servers.
    for server in &world.servers[..2] {
        assert_eq!(server.calls_of("evalsha").await.unwrap(), 0);
    }
    for proxy in &proxies[..2] {
        proxy.set(Fault::None);
    }
    for server in 0..3 {
        until_scripts_called(&world, server, 2).await;
        world.until_free(server).await;
    }
    world.end_behind(proxies).await;
}

#[tokio::test]
async fn a_majority_that_is_stopped_for_a_moment_costs_a_round_and_not_the_attempt() {
    let world = World::start(3).await;
    let store = world.store().await;
    let key = key("stopped");
    for server in &world.servers[..2] {
        server.pause().unwrap();
    }
    world.command(2, &["CONFIG", "RESETSTAT"]).await;
    let mut attempt = store.acquire(write(&key));
    assert!((&mut attempt).now_or_never().is_none());
    let (taken, ()) = tokio::join!(attempt, async {
        // The first round, what undoes it, and the second round.
        until_scripts_called(&world, 2, 3).await;
        for server in &world.servers[..2] {
            server.resume().unwrap();
        }
    });
    let held = taken.unwrap();
    assert_eq!(store.release(&held).await.unwrap(), Released::Released);
    world.until_all_are_free().await;
    world.end().await;
}

#[tokio::test]
async fn a_majority_that_stays_silent_is_reported_long_before_the_wait_ends() {
    let world = World::start(3).await;
    let (store, proxies) = world.store_behind_proxies().await;
    for proxy in &proxies[..2] {
        proxy.set(Fault::Hole);
    }
    let refused = store.acquire(Attempt { wait: Duration::MAX, ..write(&key("silent")) });
    let refused = timeout(LIMIT, refused).await.expect("it waits for servers that are away");
    assert!(is_no_quorum(&refused), "{refused:?}");
    proxies.iter().for_each(|proxy| proxy.set(Fault::None));
    world.until_all_are_free().await;
    world.end_behind(proxies).await;
}

/// A store that reaches its first server through a detour, and whose second server is down.
async fn by_detour(world: &World, command_timeout: Duration) -> (Arc<RedlockStore>, Detour) {
    let detour = Detour::start(&world.servers[0]).await;
    let mut servers = Vec::new();
    for url in [detour.url(), world.servers[1].url(), world.servers[2].url()] {
        servers.push(Redis::builder(url).command_timeout(command_timeout).connect().await.unwrap());
    }
    (connected(&servers, Settings::default()).await, detour)
}

/// Runs an attempt whose command to the first server is held back while its connection ends.
async fn lose_an_acquire(world: &World, store: &RedlockStore, detour: &Detour) {
    world.servers[1].kill().await.unwrap();
    super::until("the end of a link", || !store.inner.nodes[1].link.is_up()).await;
    detour.hold();
    let before = detour.sent();
    let mut attempt = store.acquire(Attempt { lease: LONG, ..once(&key("stray")) });
    assert!((&mut attempt).now_or_never().is_none());
    detour.until_sent(before).await;
    detour.leave();
    let failed = timeout(LIMIT, attempt).await.expect("it hangs");
    assert!(is_no_quorum(&failed), "{failed:?}");
}

async fn until_scripts_called(world: &World, server: usize, times: u64) {
    let server = &world.servers[server];
    eventually("the scripts", async || server.calls_of("evalsha").await.unwrap() >= times).await;
}

#[tokio::test]
async fn a_question_that_arrives_when_all_that_undoes_it_has_run_is_refused() {
    let world = World::start(3).await;
    let (store, detour) = by_detour(&world, Duration::from_millis(250)).await;
    lose_an_acquire(&world, &store, &detour).await;
    store.inner.tasks.close();
    timeout(LIMIT, store.inner.tasks.wait()).await.expect("never undone");
    world.command(0, &["CONFIG", "RESETSTAT"]).await;
    detour.let_go();
    until_scripts_called(&world, 0, 1).await;
    assert!(world.keys(0).await.is_empty(), "it took a server that nobody gives back");
    world.end_behind(detour).await;
}

#[tokio::test]
async fn a_question_that_arrives_after_its_first_undoing_is_undone_again() {
    let world = World::start(3).await;
    // Long enough that the request still arrives in time on a busy machine.
    let (store, detour) = by_detour(&world, Duration::from_secs(2)).await;
    world.command(0, &["CONFIG", "RESETSTAT"]).await;
    lose_an_acquire(&world, &store, &detour).await;
    // The new connection has sent a release that found nothing.
    until_scripts_called(&world, 0, 1).await;
    assert!(world.keys(0).await.is_empty());
    detour.let_go();
    until_scripts_called(&world, 0, 2).await;
    assert_eq!(world.keys(0).await.len(), 1, "nothing was taken, so nothing is tested");
    world.until_free(0).await;
    world.end_behind(detour).await;
}
