//! Commands without an answer, followed by other commands. The unanswered ones may still be executed, and are undone.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use stockade_testbed::{Fault, Proxy};
use tokio::time::timeout;

use super::{Cluster, granted, key_on, keys_on, waiting};
use crate::{
    redis::{Redis, eventually},
    resource::Key,
    store::{
        Attempt, LockError, LockStore, Mode, Unavailable,
        redis::{
            RedisStore,
            tests::{LIMIT, connected, detour::Detour, patient, until, write},
        },
    },
};

/// Longer than a test may take, so a lock that is left behind stays visible.
const LONG: Duration = Duration::from_secs(120);

/// A store that is connected to the server of this resource.
async fn store_at(cluster: &Cluster, key: &Key, command_timeout: Duration) -> Arc<RedisStore> {
    let redis = Redis::builder(cluster.nodes.url()).command_timeout(command_timeout).connect().await.unwrap();
    let store = connected(&redis).await;
    until("the node is known", || store.inner.shard(key).is_ok_and(|shard| shard.link.is_up())).await;
    store
}

/// Waits until `wanted` holds for the keys of locks.
async fn until_keys(what: &str, cluster: &Cluster, wanted: impl Fn(&[String]) -> bool + Send + Sync) {
    eventually(what, async || wanted(&cluster.nodes.leftovers().await.unwrap().keys)).await;
}

async fn until_taken(cluster: &Cluster, locks: usize) {
    let states = |keys: &[String]| keys.iter().filter(|key| key.contains("}l:")).count();
    until_keys("nothing was taken, so nothing is tested", cluster, |keys| states(keys) == locks).await;
}

async fn until_free(cluster: &Cluster) {
    until_keys("a lock is left that nobody waits for", cluster, <[_]>::is_empty).await;
}

#[tokio::test]
async fn an_acquire_without_an_answer_is_undone_although_no_later_one_could_be_sent() {
    let cluster = Cluster::start().await;
    let proxy = Proxy::start(cluster.primary(0).addr()).await.unwrap();
    cluster.announce(0, proxy.addr()).await;
    let key = key_on(0);
    let store = store_at(&cluster, &key, Duration::from_millis(250)).await;
    proxy.set(Fault::DropReplies);
    let attempt = waiting(&store, Attempt { lease: LONG, wait: Duration::ZERO, ..write(&key) });
    until_taken(&cluster, 1).await;
    // The attempt asks again and again, at a node that can't be reached.
    proxy.set(Fault::Reset);
    let failed = timeout(LIMIT, attempt).await.expect("it hangs").unwrap();
    let Err(LockError::Unavailable { reason, .. }) = &failed else { panic!("{failed:?}") };
    assert!(matches!(reason, Unavailable::Disconnected | Unavailable::Lost | Unavailable::BreakerOpen), "{reason:?}");
    proxy.set(Fault::None);
    until_free(&cluster).await;
    cluster.end_behind(proxy).await;
}

#[tokio::test]
async fn an_acquire_without_an_answer_is_undone_although_a_later_one_was_refused() {
    let cluster = Cluster::start().await;
    // This store knows the nodes by their own addresses.
    let other = connected(&patient(&cluster.nodes.url()).await).await;
    let refused = [
        Attempt { wait: Duration::ZERO, ..write(&key_on(0)) },
        // This attempt knocks first.
        Attempt { max_waiters: 0, ..write(&key_on(1)) },
        Attempt { mode: Mode::Permit, permits: 2, ..write(&key_on(2)) },
    ];
    let (mut held, mut ways) = (Vec::new(), Vec::new());
    for (node, attempt) in refused.iter().enumerate() {
        let permits = attempt.permits.saturating_sub(1);
        held.push(other.acquire(Attempt { permits, wait: LIMIT, ..attempt.clone() }).await.unwrap());
        let detour = Detour::start(cluster.primary(node)).await;
        cluster.announce(node, detour.addr()).await;
        // Long enough that the first command still arrives in time on a busy machine.
        ways.push((store_at(&cluster, &attempt.key, Duration::from_secs(2)).await, detour));
    }
    let mut answers = Vec::new();
    for ((store, detour), attempt) in ways.iter().zip(refused) {
        detour.hold();
        let before = detour.sent();
        let attempt = waiting(store, Attempt { lease: LONG, ..attempt });
        detour.until_sent(before).await;
        detour.leave();
        answers.push(timeout(LIMIT, attempt).await.expect("it hangs").unwrap().unwrap_err());
    }
    use LockError::{Busy, Capacity, QueueFull};
    assert!(matches!(*answers, [Busy { .. }, QueueFull { .. }, Capacity { .. }]), "{answers:?}");
    join_all(held.iter().map(|held| other.release(held))).await;
    until_free(&cluster).await;
    ways.iter().for_each(|(_, detour)| detour.let_go());
    until_taken(&cluster, ways.len()).await;
    until_free(&cluster).await;
    cluster.end_behind(ways).await;
}

#[tokio::test]
async fn attempts_that_went_with_a_connection_come_back_with_the_next() {
    // Enough for the breaker to open when all of them go.
    const ATTEMPTS: usize = 8;
    let cluster = Cluster::start().await;
    let proxy = Proxy::start(cluster.primary(0).addr()).await.unwrap();
    cluster.announce(0, proxy.addr()).await;
    let store = store_at(&cluster, &key_on(0), Duration::from_secs(2)).await;
    proxy.set(Fault::DropReplies);
    let attempts = keys_on(0).take(ATTEMPTS).map(|key| Attempt { wait: Duration::ZERO, ..write(&key) });
    let attempts: Vec<_> = attempts.map(|attempt| waiting(&store, attempt)).collect();
    until_taken(&cluster, ATTEMPTS).await;
    // The end of the fault closes the connections whose replies were dropped.
    proxy.set(Fault::None);
    for attempt in attempts {
        store.release(&granted(attempt).await).await.unwrap();
    }
    cluster.end_behind(proxy).await;
}
