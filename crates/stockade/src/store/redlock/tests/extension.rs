use std::{slice, sync::Arc, time::Duration};

use tokio::time::{sleep, timeout};

use super::{LIMIT, RedlockStore, World, key, once, reconnected, until, write};
use crate::{
    clock::Instant,
    store::{Attempt, LockError, LockStore, LossReason, Ownership, Released},
};

async fn renew(store: &RedlockStore, ownership: &Arc<Ownership>) {
    store.renew(slice::from_ref(ownership)).await.unwrap();
}

#[tokio::test]
async fn a_lock_survives_that_all_servers_come_back_empty_one_after_the_other() {
    let world = World::start(3).await;
    let (store, other) = (world.store().await, world.store().await);
    let key = key("rejoin");
    let held = store.acquire(write(&key)).await.unwrap();
    world.until_held_everywhere().await;
    for server in 0..3 {
        world.servers[server].restart().await.unwrap();
        reconnected(&store, &[server]).await;
        renew(&store, &held).await;
        assert!(held.loss().is_none(), "lost with server {server}");
        world.until_held_everywhere().await;
        let busy = other.acquire(once(&key)).await;
        assert!(matches!(busy, Err(LockError::Busy { .. })), "{busy:?}");
    }
    // A refilled server has a full lease.
    let left: u64 = world.command(0, &["PTTL", &world.keys(0).await[0]]).await.parse().unwrap();
    assert!(left > 30_000 && left <= 60_000, "{left}");
    assert_eq!(store.release(&held).await.unwrap(), Released::Released);
    world.until_all_are_free().await;
    world.end().await;
}

#[tokio::test]
async fn a_server_without_the_lock_is_given_it_by_the_next_extension() {
    let world = World::start(3).await;
    let store = world.store().await;
    let held = store.acquire(write(&key("refilled"))).await.unwrap();
    world.until_held_everywhere().await;
    let name = world.keys(1).await.remove(0);
    world.command(1, &["DEL", &name]).await;
    renew(&store, &held).await;
    world.until_held_everywhere().await;
    store.release(&held).await.unwrap();
    world.until_all_are_free().await;
    world.end().await;
}

#[tokio::test]
async fn a_majority_that_comes_back_empty_is_a_loss_and_is_not_taken_again() {
    let world = World::start(3).await;
    let (store, other) = (world.store().await, world.store().await);
    let key = key("emptied");
    let held = store.acquire(write(&key)).await.unwrap();
    world.until_held_everywhere().await;
    // Both are gone before either can be given the lock again.
    for server in [0, 1] {
        world.servers[server].kill().await.unwrap();
    }
    for server in [0, 1] {
        world.servers[server].restart().await.unwrap();
    }
    let told = timeout(LIMIT, async {
        while held.loss().is_none() {
            let _ = store.renew(slice::from_ref(&held)).await;
            sleep(Duration::from_millis(5)).await;
        }
    });
    told.await.expect("the holder is not told");
    assert_eq!(held.loss(), Some(LossReason::StoreLostData));
    reconnected(&other, &[0, 1]).await;
    let next = other.acquire(once(&key)).await.unwrap();
    assert!(next.token > held.token);
    renew(&store, &held).await;
    assert!(next.loss().is_none());
    assert_eq!(store.release(&held).await.unwrap(), Released::Lost);
    renew(&other, &next).await;
    assert!(next.loss().is_none(), "the earlier owner took something away");
    other.release(&next).await.unwrap();
    world.until_all_are_free().await;
    world.end().await;
}

/// Two servers have lost the lock and one stores it. A value that the extension itself wrote does not count.
#[tokio::test]
async fn what_an_extension_gives_back_does_not_count_for_it() {
    let world = World::start(3).await;
    let store = world.store().await;
    let held = store.acquire(write(&key("proof"))).await.unwrap();
    world.until_held_everywhere().await;
    for server in [0, 1] {
        world.command(server, &["FLUSHALL"]).await;
    }
    let before = held.deadline();
    renew(&store, &held).await;
    assert_eq!(held.loss(), Some(LossReason::StoreLostData));
    assert_eq!(held.deadline(), before);
    for server in [0, 1] {
        assert!(world.keys(server).await.is_empty(), "a lock that is lost was taken again");
    }
    assert_eq!(store.release(&held).await.unwrap(), Released::Lost);
    world.end().await;
}

#[tokio::test]
async fn a_majority_that_is_anothers_is_a_theft() {
    let world = World::start(3).await;
    let store = world.store().await;
    let held = store.acquire(write(&key("stolen"))).await.unwrap();
    world.until_held_everywhere().await;
    let name = world.keys(0).await.remove(0);
    world.command(0, &["SET", &name, "somebody else's"]).await;
    renew(&store, &held).await;
    assert!(held.loss().is_none(), "one server decides nothing");
    // The other program stores a list, not a string.
    world.command(1, &["DEL", &name]).await;
    world.command(1, &["HSET", &name, "field", "value"]).await;
    renew(&store, &held).await;
    assert_eq!(held.loss(), Some(LossReason::Stolen));
    assert_eq!(store.release(&held).await.unwrap(), Released::Lost);
    world.until_free(2).await;
    assert_eq!((world.keys(0).await.len(), world.keys(1).await.len()), (1, 1), "what is another's was deleted");
    for server in [0, 1] {
        world.command(server, &["DEL", &name]).await;
    }
    world.end().await;
}

#[tokio::test]
async fn a_release_is_not_followed_by_what_an_extension_gives_back() {
    let world = World::start(3).await;
    let store = world.store().await;
    for n in 0..100 {
        let held = store.acquire(Attempt { lease: Duration::from_secs(100), ..write(&key("race")) }).await.unwrap();
        world.until_held_everywhere().await;
        world.command(2, &["FLUSHALL"]).await;
        let (_, released) = tokio::join!(store.renew(slice::from_ref(&held)), async {
            for _ in 0..n % 10 {
                tokio::task::yield_now().await;
            }
            sleep(Duration::from_micros(n * 20)).await;
            store.release(&held).await
        });
        assert_eq!(released.unwrap(), Released::Released);
        // Whatever was under way.
        until("the end of the background work", || store.inner.tasks.is_empty()).await;
        world.until_all_are_free().await;
    }
    world.end().await;
}

#[tokio::test]
async fn many_are_extended_at_once() {
    let world = World::start(3).await;
    let store = world.store().await;
    let mut all = Vec::new();
    for n in 0..250 {
        all.push(store.acquire(write(&key(&n.to_string()))).await.unwrap());
    }
    let gone = all[120].key.clone();
    store.force(&gone, crate::store::Force::Now).await.unwrap();
    let before: Vec<_> = all.iter().map(|held| held.deadline()).collect();
    let since = Instant::now();
    store.renew(&all).await.unwrap();
    for (held, before) in all.iter().zip(before) {
        assert_eq!(held.loss().is_some(), held.key == gone);
        assert_eq!(held.deadline() > before, held.key != gone, "{:?} after {:?}", held.key, since.elapsed());
    }
    for held in all {
        store.release_detached(held);
    }
    world.until_all_are_free().await;
    world.end().await;
}
