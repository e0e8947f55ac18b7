//! Attempts that wait for their place on the wire.

use std::time::Duration;

use futures_util::FutureExt;

use super::{World, key, server, write};
use crate::{
    clock::Instant,
    redis::{leisurely, slow},
    store::{Attempt, LockStore, Released, redis::acquire::Waiter},
};

const LEASE: Duration = Duration::from_secs(2);

#[tokio::test]
async fn an_attempt_that_waited_for_its_place_is_as_young_as_its_sending() {
    let world = World::on(leisurely().await);
    let store = world.store().await;
    world.command(&["CONFIG", "RESETSTAT"]).await;
    // Other commands are sent before it for 1.5 s, three times as long as a command may be on its way.
    let before = slow(&server(&store).link);
    let asked = Instant::now();
    let attempt = Attempt { lease: LEASE, wait: Duration::from_secs(30), ..write(&key("patient")) };
    let held = store.acquire(attempt).await.unwrap();
    assert!(asked.elapsed() > store.inner.timeout * 2, "it had a place at once: {:?}", asked.elapsed());
    assert!(held.deadline().remaining() > LEASE / 2, "{:?} of its lease are left", held.deadline().remaining());
    assert_eq!(world.server.calls_of("evalsha").await.unwrap(), 1, "it was refused as too old");
    for reply in before {
        reply.await.unwrap();
    }
    assert_eq!(store.release(&held).await.unwrap(), Released::Released);
    world.end().await;
}

#[tokio::test]
async fn an_attempt_that_is_given_up_before_it_was_sent_sends_nothing() {
    let world = World::on(leisurely().await);
    let store = world.store().await;
    world.command(&["CONFIG", "RESETSTAT"]).await;
    let before = slow(&server(&store).link);
    let mut attempts: Vec<_> = (0..50).map(|n| Box::pin(store.acquire(write(&key(&format!("{n}")))))).collect();
    for attempt in &mut attempts {
        assert!(attempt.as_mut().now_or_never().is_none());
    }
    drop(attempts);
    for reply in before {
        reply.await.unwrap();
    }
    assert_eq!(world.server.calls_of("evalsha").await.unwrap(), 0, "neither the attempt nor what undoes it");
    world.end().await;
}

#[tokio::test]
async fn an_attempt_takes_no_memory_for_what_it_seldom_does() {
    let world = World::start().await;
    let store = world.store().await;
    // An attempt stays in memory as long as it waits. The future that confirms a grant is three times as large.
    let attempt = Waiter::new(&store.inner, write(&key("a"))).acquire();
    assert!(size_of_val(&attempt) <= 4_096, "{} bytes", size_of_val(&attempt));
    drop(attempt);
    world.end().await;
}
