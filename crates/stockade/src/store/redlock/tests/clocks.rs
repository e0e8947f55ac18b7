//! Redlock while clocks step. The second test shows the documented limit: two owners at a time.

use std::{slice, sync::Arc, time::Duration};

use stockade_testbed::{Fault, RedisServer};
use tokio::time::{sleep, timeout};

use super::{LIMIT, RedlockStore, World, granted, key, once, until, write};
use crate::{
    resource::Key,
    store::{Attempt, LockStore, LossReason, Ownership, Released},
};

const STEP: Duration = Duration::from_secs(600);
/// Long enough that no lease expires during a test on a busy machine.
const LEASE: Duration = Duration::from_secs(60);

async fn world() -> World {
    let mut servers = Vec::new();
    for _ in 0..3 {
        servers.push(RedisServer::builder().own_clock().start().await.unwrap());
    }
    World::of(servers)
}

fn long(key: &Key) -> Attempt {
    Attempt { lease: LEASE, ..write(key) }
}

/// Until a quorum has answered in time.
async fn renew(store: &RedlockStore, held: &Arc<Ownership>) {
    let renewed = async {
        while store.renew(slice::from_ref(held)).await.is_err() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(LIMIT, renewed).await.expect("no quorum");
}

#[tokio::test]
async fn one_clock_that_steps_is_survived_while_the_others_have_the_lock() {
    let world = world().await;
    let (store, other) = (world.store().await, world.store().await);
    let key = key("step");
    let held = granted(&store, long(&key)).await;
    world.until_held_everywhere().await;
    world.servers[1].step_clock_forwards(STEP).unwrap();
    world.until_free(1).await;
    assert!(other.acquire(once(&key)).await.is_err());
    renew(&store, &held).await;
    assert!(held.loss().is_none());
    world.until_held_everywhere().await;
    assert_eq!(store.release(&held).await.unwrap(), Released::Released);
    let next = granted(&other, long(&key)).await;
    assert!(next.token > held.token);
    world.servers[1].step_clock_backwards(STEP * 2).unwrap();
    other.release(&next).await.unwrap();
    let last = granted(&store, long(&key)).await;
    assert!(last.token > next.token);
    store.release(&last).await.unwrap();
    world.end().await;
}

/// The run in which Redlock has two owners: the servers of one are a bare quorum, and the clock of one of them steps.
#[tokio::test]
async fn a_clock_that_steps_can_make_two_owners_whom_the_fence_tells_apart() {
    let world = world().await;
    let ((store, proxies), other) = (world.store_behind_proxies().await, world.store().await);
    let key = key("two");
    proxies[2].set(Fault::Reset);
    until("the end of a link", || !store.inner.nodes[2].link.is_up()).await;
    let first = granted(&store, long(&key)).await;
    world.until(1, |keys| keys.len() == 1).await;
    world.servers[1].step_clock_forwards(STEP).unwrap();
    world.until_free(1).await;
    let second = granted(&other, long(&key)).await;
    assert!(first.loss().is_none() && second.loss().is_none(), "then this limit is gone, and the documents are wrong");
    assert!(second.token > first.token);
    // The first owner learns of the loss when it asks a quorum.
    proxies[2].set(Fault::None);
    until("the link", || store.inner.nodes[2].link.is_up()).await;
    renew(&store, &first).await;
    assert_eq!(first.loss(), Some(LossReason::Stolen));
    store.release_detached(first);
    other.release(&second).await.unwrap();
    world.end_behind(proxies).await;
}
