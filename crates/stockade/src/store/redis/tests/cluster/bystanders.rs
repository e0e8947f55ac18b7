//! Those who use a node while something happens to slots that they don't ask for.

use std::{slice, time::Duration};

use futures_util::future::join_all;
use stockade_testbed::{Fault, Proxy, RedisCluster};
use tokio::time::{Instant, sleep};

use super::{Cluster, key_on, keys_on};
use crate::{
    resource::Key,
    store::{
        Attempt, LockError, LockStore, Unavailable,
        conformance::key,
        redis::tests::{connected, opened, patient, until, waiting, write},
    },
};

/// Other resources of its bucket.
fn beside(of: &Key) -> impl Iterator<Item = Key> {
    let bucket = of.bucket();
    (0..).map(|number: u32| key(&format!("beside-{number}"))).filter(move |key| key.bucket() == bucket)
}

/// A proxy that clients are sent to in place of the node, and that delays all by so much.
async fn delayed(cluster: &Cluster, node: usize, by: Duration) -> Proxy {
    let proxy = Proxy::start(cluster.primary(node).addr()).await.unwrap();
    proxy.set(Fault::Delay(by));
    cluster.announce(node, proxy.addr()).await;
    proxy
}

/// A node that gives a slot away ends the connections of all that listen in it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_refused_because_another_slot_leaves_the_node() {
    let cluster = Cluster::start().await;
    let proxy = delayed(&cluster, 0, Duration::from_millis(1)).await;
    // A busy machine takes its time to connect again.
    let store = connected(&patient(&cluster.nodes.url()).await).await;
    let leaves = key_on(0);
    store.release(&store.acquire(write(&leaves)).await.unwrap()).await.unwrap();
    until("it listens", || store.inner.shard(&leaves).is_ok_and(|shard| shard.hears(leaves.bucket()))).await;
    let stays = keys_on(0).nth(1).unwrap();
    let keys: Vec<_> = beside(&stays).take(3 * 250).collect();
    let asked = join_all(keys.chunks(3).enumerate().map(async |(number, keys)| {
        sleep(Duration::from_millis(4) * u32::try_from(number).unwrap()).await;
        let [one, other, third] = keys else { unreachable!("chunks of three") };
        match number % 3 {
            0 => {
                let held = match store.try_all(&[write(one), write(other)]).await {
                    // It was under way, and nobody knows what became of it.
                    Err(LockError::Unavailable { reason: Unavailable::Lost, .. }) => None,
                    held => held.unwrap(),
                };
                for held in held.unwrap_or_default() {
                    store.release(&held).await.unwrap();
                }
            }
            1 => drop(store.release(&store.acquire(write(third)).await.unwrap()).await.unwrap()),
            _ => drop(store.inspect(one).await.unwrap()),
        }
    }));
    let moves = async {
        for round in 1..=4 {
            // So that the four are spread over the time in which the others ask.
            sleep(Duration::from_millis(200)).await;
            cluster.nodes.migrate(leaves.bucket().slot(), cluster.primary(round % 2)).await.unwrap();
        }
    };
    tokio::join!(asked, moves);
    store.shutdown(Duration::from_secs(1)).await;
    cluster.end_behind(proxy).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn those_who_wait_for_a_slot_are_served_by_a_node_that_is_new_to_them() {
    let cluster = Cluster::start().await;
    let proxy = delayed(&cluster, 2, Duration::from_millis(3)).await;
    let store = connected(&patient(&cluster.nodes.url()).await).await;
    let moving = key_on(0);
    store.release(&store.acquire(write(&moving)).await.unwrap()).await.unwrap();
    let slot = moving.bucket().slot();
    cluster.nodes.begin_migration(slot, cluster.primary(2)).await.unwrap();
    cluster.nodes.move_keys(slot).await.unwrap();
    cluster.reset_stats().await;
    let waiters: Vec<_> = beside(&moving).take(20).map(|key| waiting(&store, write(&key))).collect();
    cluster.until_scripts_refused(20).await;
    cluster.nodes.finish_migration(slot).await.unwrap();
    for waiter in waiters {
        store.release(&waiter.await.unwrap().unwrap()).await.unwrap();
    }
    store.shutdown(Duration::from_secs(1)).await;
    cluster.end_behind(proxy).await;
}

/// A slot can take minutes to move, and every attempt for it asks the node anew.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attempts_for_a_slot_on_its_way_ask_more_and_more_seldom() {
    const ATTEMPTS: usize = 50;
    let cluster = Cluster::start().await;
    let store = cluster.store().await;
    let key = key_on(2);
    let slot = key.bucket().slot();
    store.release(&store.acquire(write(&key)).await.unwrap()).await.unwrap();
    cluster.nodes.begin_migration(slot, cluster.primary(0)).await.unwrap();
    cluster.reset_stats().await;
    let since = Instant::now();
    let waiters: Vec<_> = beside(&key).take(ATTEMPTS).map(|key| waiting(&store, write(&key))).collect();
    // The slot stays half moved for so long, and the refusals meanwhile are counted.
    sleep(Duration::from_secs(3)).await;
    let refused = cluster.count_of("evalsha", "rejected_calls").await;
    // Seven pauses lead to the longest one, which lasts for a quarter of a second at least.
    let most = ATTEMPTS as f64 * (10.0 + since.elapsed().as_secs_f64() * 4.0);
    assert!(refused as f64 <= most, "{refused} refusals, more than {most}");
    cluster.nodes.move_keys(slot).await.unwrap();
    cluster.nodes.finish_migration(slot).await.unwrap();
    for waiter in waiters {
        store.release(&waiter.await.unwrap().unwrap()).await.unwrap();
    }
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_gone_is_waited_for_no_longer_than_a_command() {
    let cluster = Cluster::start().await;
    let store = cluster.store().await;
    let shard = store.inner.shard(&key_on(0)).unwrap();
    cluster.primary(0).kill().await.unwrap();
    until("the connection is lost", || !shard.link.is_up()).await;
    until("others hear at once that it is gone", || !shard.link.is_up_soon()).await;
    cluster.primary(0).restart().await.unwrap();
    until("a connection", || shard.link.is_up()).await;
    store.shutdown(Duration::from_secs(1)).await;
    drop(shard);
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_without_a_node_takes_no_other_bucket_away() {
    let builder = RedisCluster::builder().without_replicas().arg("--cluster-require-full-coverage").arg("no");
    let cluster = Cluster::of(builder).await;
    let store = cluster.store().await;
    let keys: Vec<_> = keys_on(0).take(3).collect();
    for key in &keys[..2] {
        store.release(&store.acquire(write(key)).await.unwrap()).await.unwrap();
        until("it listens", || store.inner.shard(key).is_ok_and(|shard| shard.hears(key.bucket()))).await;
    }
    let kept = store.acquire(write(&keys[2])).await.unwrap();
    let slot = keys[0].bucket().slot().to_string();
    for node in cluster.nodes.nodes() {
        node.command(&["CLUSTER", "DELSLOTS", &slot]).await.unwrap();
    }
    until("the node ended its connection", || {
        store.inner.shard(&keys[1]).is_ok_and(|shard| !shard.hears(keys[0].bucket()))
    })
    .await;
    let held = store.acquire(write(&keys[1])).await.unwrap();
    store.release(&held).await.unwrap();
    assert!(store.renew(slice::from_ref(&kept)).await.is_ok());
    store.release(&kept).await.unwrap();
    cluster.primary(0).command(&["CLUSTER", "ADDSLOTS", &slot]).await.unwrap();
    let again = store.acquire(write(&keys[0])).await;
    store.release(&again.unwrap()).await.unwrap();
    store.shutdown(Duration::from_secs(1)).await;
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_without_a_host_name_is_said_to_have_none() {
    let cluster = Cluster::start().await;
    for (number, node) in cluster.nodes.nodes().iter().enumerate() {
        if number != 1 {
            node.command(&["CONFIG", "SET", "cluster-announce-hostname", "localhost"]).await.unwrap();
        }
        node.command(&["CONFIG", "SET", "cluster-preferred-endpoint-type", "hostname"]).await.unwrap();
    }
    let store = opened(&cluster.redis().await);
    let named = async || {
        let slots = cluster.primary(0).command(&["CLUSTER", "SLOTS"]).await.unwrap();
        slots.matches("localhost").count() >= 2
    };
    crate::redis::eventually("the names are known", named).await;
    let missing = key_on(1);
    let refused = async || store.acquire(Attempt { wait: Duration::ZERO, ..write(&missing) }).await;
    let says = async || {
        let Err(LockError::Unavailable { reason: Unavailable::Unfit { said }, .. }) = refused().await else {
            return false;
        };
        said.contains("cluster-announce-hostname")
    };
    crate::redis::eventually("the refusal says why", says).await;
    store.shutdown(Duration::from_secs(1)).await;
    cluster.end().await;
}
