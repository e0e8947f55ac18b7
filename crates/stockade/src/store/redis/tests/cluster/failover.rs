use std::time::Duration;

use stockade_testbed::RedisCluster;
use tokio::time::timeout;

use super::{Cluster, granted, key_on, keys_on, waiting};
use crate::store::{
    Attempt, LockStore, LossReason, Released, Token,
    redis::tests::{LIMIT, until, until_waiting, write},
};

#[tokio::test]
async fn after_a_failover_holders_know_where_they_are_and_waiters_keep_their_order() {
    let cluster = Cluster::of(RedisCluster::builder()).await;
    let (holder, other) = (cluster.store().await, cluster.store().await);
    let [key, lost, ahead]: [_; 3] = std::array::from_fn(|n| keys_on(0).nth(n).unwrap());
    let slot = key.bucket().slot();
    let long = |key| Attempt { lease: Duration::from_secs(60), wait: 3 * LIMIT, ..write(key) };
    let held = holder.acquire(long(&key)).await.unwrap();
    let mut waiters = Vec::new();
    for place in 1..=3 {
        waiters.push(waiting(&other, long(&key)));
        until_waiting(&holder, &key, place).await;
    }
    let primary = cluster.nodes.primary_of(slot).await.unwrap();
    let replica = cluster.nodes.replica_of(primary).await.unwrap();
    assert_eq!(primary.command(&["WAIT", "1", "10000"]).await.unwrap().trim(), "1");
    // From here on the replica gets no writes. Its connection is closed, too, or it would read pending writes later.
    replica.pause().unwrap();
    primary.command(&["CLIENT", "KILL", "TYPE", "replica"]).await.unwrap();
    let lost = holder.acquire(long(&lost)).await.unwrap();
    let floor = Token::new(8_000_000_000_000_000).unwrap();
    holder.seed(&ahead, floor).await.unwrap();
    primary.kill().await.unwrap();
    replica.resume().unwrap();
    cluster.nodes.until_promoted_after(primary, slot).await.unwrap();

    assert_eq!(timeout(LIMIT, lost.lost()).await.expect("not told"), LossReason::StoreLostData);
    until("a confirmation", || {
        let now = holder.inner.shard(&key).unwrap();
        holder.inner.held.unsure(&holder.inner.shards, &now).is_empty()
    })
    .await;
    assert!(held.loss().is_none());
    let above = timeout(LIMIT, holder.acquire(long(&ahead))).await.unwrap().unwrap();
    assert!(above.token > floor, "{:?}", above.token);
    holder.release(&above).await.unwrap();
    until_waiting(&holder, &key, 3).await;
    assert_eq!(holder.release(&held).await.unwrap(), Released::Released);
    let mut last = held.token;
    for waiter in waiters {
        let next = granted(waiter).await;
        assert!(next.token > last);
        last = next.token;
        assert_eq!(other.release(&next).await.unwrap(), Released::Released);
    }
    cluster.end().await;
}

#[tokio::test]
async fn a_failover_is_followed_while_the_old_primary_is_frozen() {
    let cluster = Cluster::of(RedisCluster::builder()).await;
    let store = cluster.store().await;
    let key = key_on(1);
    let slot = key.bucket().slot();
    store.release(&store.acquire(write(&key)).await.unwrap()).await.unwrap();
    let primary = cluster.nodes.primary_of(slot).await.unwrap();
    primary.pause().unwrap();
    let again = timeout(2 * LIMIT, async {
        loop {
            match store.acquire(write(&key)).await {
                Ok(held) => return held,
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    });
    let held = again.await.expect("never served again");
    primary.resume().unwrap();
    cluster.nodes.until_settled().await.unwrap();
    store.renew(std::slice::from_ref(&held)).await.unwrap();
    assert!(held.loss().is_none());
    store.release(&held).await.unwrap();
    cluster.end().await;
}
