use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::time::timeout;

use super::{Cluster, granted, key_on, waiting};
use crate::store::{
    Attempt, LockStore, Owner,
    redis::tests::{LIMIT, asked, told, until, until_waiting, write},
};

/// Queues a waiter of a process that will never act.
async fn dead_waiter(cluster: &Cluster, attempt: &Attempt) {
    let store = cluster.store().await;
    store.inspect(&attempt.key).await.unwrap();
    let owner = Owner::new("dead-process-xyz.00000000000".to_owned());
    asked(&store, attempt, &owner, 0).await;
    store.shutdown(LIMIT).await;
}

#[tokio::test]
async fn a_lock_is_handed_over_on_every_node_and_the_dead_are_passed_over_at_once() {
    let cluster = Cluster::start().await;
    let (holder, other) = (cluster.store().await, cluster.store().await);
    for node in 0..3 {
        let key = key_on(node);
        let held = holder.acquire(write(&key)).await.unwrap();
        dead_waiter(&cluster, &write(&key)).await;
        let next = waiting(&other, write(&key));
        until_waiting(&holder, &key, 2).await;
        holder.release(&held).await.unwrap();
        let next = timeout(Duration::from_secs(1), next).await.expect("waited for the dead").unwrap().unwrap();
        assert!(next.handed_off.unwrap() < Duration::from_secs(1), "{:?}", next.handed_off);
        assert!(next.token > held.token);
        other.release(&next).await.unwrap();
    }
    cluster.end().await;
}

#[tokio::test]
async fn a_free_lock_costs_two_scripts_and_one_handed_over_little_more() {
    const PAIRS: u64 = 100;
    const TASKS: u64 = 8;
    const SECTIONS: u64 = 25;
    let cluster = Cluster::start().await;
    let stores = [cluster.store().await, cluster.store().await];
    for node in 0..3 {
        // The first lock of a process in a bucket makes it listen there, in the background.
        for store in &stores {
            let held = store.acquire(write(&key_on(node))).await.unwrap();
            store.release(&held).await.unwrap();
            let shard = store.inner.shard(&key_on(node)).unwrap();
            until("a subscription", || shard.hears(key_on(node).bucket())).await;
        }
    }
    cluster.reset_stats().await;
    for _ in 0..PAIRS {
        for node in 0..3 {
            let held = stores[0].acquire(write(&key_on(node))).await.unwrap();
            stores[0].release(&held).await.unwrap();
        }
    }
    assert_eq!(cluster.calls_of("evalsha").await, 2 * 3 * PAIRS);
    assert_eq!((cluster.calls_of("ssubscribe").await, cluster.calls_of("spublish").await), (0, 0));

    cluster.reset_stats().await;
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let store = Arc::clone(&stores[usize::from(task % 2 == 0)]);
            tokio_util::task::TaskTracker::new().spawn(async move {
                for _ in 0..SECTIONS {
                    let held = store.acquire(write(&key_on(1))).await.unwrap();
                    store.release(&held).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        timeout(LIMIT, task).await.unwrap().unwrap();
    }
    let scripts = cluster.calls_of("evalsha").await;
    let sections = TASKS * SECTIONS;
    assert!(scripts * 10 <= sections * 21, "{scripts} scripts for {sections} sections");
    assert_eq!(cluster.calls_of("ssubscribe").await, 0);
    cluster.end().await;
}

#[tokio::test]
async fn the_first_attempt_of_a_process_in_a_bucket_is_served_when_it_has_to_wait() {
    let cluster = Cluster::start().await;
    let (holder, other) = (cluster.store().await, cluster.store().await);
    let key = key_on(2);
    let held = holder.acquire(write(&key)).await.unwrap();
    let next = waiting(&other, write(&key));
    until_waiting(&holder, &key, 1).await;
    let shard = other.inner.shard(&key).unwrap();
    assert!(shard.hears(key.bucket()), "it stands in a queue and would not hear");
    holder.release(&held).await.unwrap();
    other.release(&granted(next).await).await.unwrap();
    cluster.end().await;
}

/// A node that was replaced while it was cut off may still grant.
#[tokio::test]
async fn a_grant_by_a_node_that_does_not_have_the_slot_is_not_believed() {
    let cluster = Cluster::start().await;
    let (holder, other) = (cluster.store().await, cluster.store().await);
    let key = key_on(0);
    let held = holder.acquire(write(&key)).await.unwrap();
    let waiter = waiting(&other, write(&key));
    until_waiting(&holder, &key, 1).await;
    let owner = Owner::of(&other.inner.process, other.inner.attempts.load(Ordering::Relaxed) - 1);
    let elsewhere = other.inner.shard(&key_on(1)).unwrap();
    let (token, now) = (held.token.get() + 1, elsewhere.state.clock.stamp());
    told(&other, &elsewhere, &format!("G {} {token} {} {now} {key}", owner.as_str(), now + 2_000_000));
    holder.release(&held).await.unwrap();
    let next = granted(waiter).await;
    assert_ne!(next.token.get(), token);
    other.release(&next).await.unwrap();
    cluster.end().await;
}
