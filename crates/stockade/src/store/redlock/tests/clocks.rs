//! What clocks that step do to these locks: a limit of them, stated and shown.

use std::{slice, time::Duration};

use stockade_testbed::{Fault, RedisServer};

use super::{World, key, once, until, write};
use crate::store::{LockStore, LossReason, Released};

async fn world() -> World {
    let mut servers = Vec::new();
    for _ in 0..3 {
        servers.push(RedisServer::builder().own_clock().start().await.unwrap());
    }
    World { servers }
}

#[tokio::test]
async fn one_clock_that_steps_is_survived_while_the_others_have_the_lock() {
    let world = world().await;
    let (store, other) = (world.store().await, world.store().await);
    let key = key("step");
    let held = store.acquire(write(&key)).await.unwrap();
    world.until_held_everywhere().await;
    world.servers[1].step_clock_forwards(Duration::from_secs(60)).unwrap();
    world.until_free(1).await;
    assert!(other.acquire(once(&key)).await.is_err());
    store.renew(slice::from_ref(&held)).await.unwrap();
    assert!(held.loss().is_none());
    world.until_held_everywhere().await;
    assert_eq!(store.release(&held).await.unwrap(), Released::Released);
    let next = other.acquire(write(&key)).await.unwrap();
    assert!(next.token > held.token);
    world.servers[1].step_clock_backwards(Duration::from_secs(120)).unwrap();
    other.release(&next).await.unwrap();
    let last = store.acquire(write(&key)).await.unwrap();
    assert!(last.token > next.token);
    store.release(&last).await.unwrap();
}

/// The run in which Redlock has two owners: the servers of one are a bare quorum, and the clock of one of them steps.
#[tokio::test]
async fn a_clock_that_steps_can_make_two_owners_whom_the_fence_tells_apart() {
    let world = world().await;
    let ((store, proxies), other) = (world.store_behind_proxies().await, world.store().await);
    let key = key("two");
    proxies[2].set(Fault::Reset);
    until("the end of a link", || !store.inner.nodes[2].link.is_up()).await;
    let first = store.acquire(write(&key)).await.unwrap();
    world.until(1, |keys| keys.len() == 1).await;
    world.servers[1].step_clock_forwards(Duration::from_secs(60)).unwrap();
    world.until_free(1).await;
    let second = other.acquire(once(&key)).await.unwrap();
    assert!(first.loss().is_none() && second.loss().is_none(), "then this limit is gone, and the documents are wrong");
    assert!(second.token > first.token);
    // Until it asks a quorum.
    proxies[2].set(Fault::None);
    until("the link", || store.inner.nodes[2].link.is_up()).await;
    store.renew(slice::from_ref(&first)).await.unwrap();
    assert_eq!(first.loss(), Some(LossReason::Stolen));
    store.release_detached(first);
    other.release(&second).await.unwrap();
}
