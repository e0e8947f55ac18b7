use stockade_testbed::{Error, RedisServer, SentinelGroup, eventually};

use crate::support::is_alive;

/// The answer of the group's sentinels to the question that clients ask.
async fn told_by(sentinel: &RedisServer) -> String {
    let told = sentinel.command(&["SENTINEL", "get-master-addr-by-name", SentinelGroup::NAME]).await.unwrap();
    told.replace('\n', ":")
}

#[tokio::test]
async fn a_group_starts_with_synchronised_replicas_and_sentinels_that_know_all() {
    let group = SentinelGroup::start().await.unwrap();
    let addrs: Vec<String> = group.sentinel_addrs().iter().map(ToString::to_string).collect();
    assert_eq!(group.url(), format!("redis-sentinel://{}/primary", addrs.join(",")));
    let primary = group.primary().await.unwrap();
    assert_eq!(primary, &group.servers()[0]);
    primary.command(&["SET", "key", "value"]).await.unwrap();
    assert_eq!(primary.command(&["WAIT", "2", "5000"]).await.unwrap(), "2");
    for replica in group.replicas().await.unwrap() {
        assert_eq!(replica.command(&["GET", "key"]).await.unwrap(), "value");
    }
    for sentinel in group.sentinels() {
        assert_eq!(told_by(sentinel).await, primary.addr().to_string());
        assert_eq!(sentinel.command(&["SENTINEL", "CKQUORUM", "primary"]).await.unwrap().split(' ').next(), Some("OK"));
    }
}

#[tokio::test]
async fn a_killed_primary_is_replaced_with_its_data_and_comes_back_as_a_replica() {
    let group = SentinelGroup::start().await.unwrap();
    let old = group.primary().await.unwrap();
    old.command(&["SET", "key", "value"]).await.unwrap();
    assert_eq!(old.command(&["WAIT", "2", "5000"]).await.unwrap(), "2");
    let pid = old.pid();
    let new = group.failover().await.unwrap();
    assert_ne!(new, old);
    assert!(!is_alive(pid));
    assert_eq!(new.command(&["GET", "key"]).await.unwrap(), "value");
    assert_eq!(new.command(&["SET", "key", "later"]).await.unwrap(), "OK");
    old.restart().await.unwrap();
    group.until_settled().await.unwrap();
    assert_eq!(old.command(&["GET", "key"]).await.unwrap(), "later");
    let refused = old.command(&["SET", "key", "too late"]).await.unwrap_err();
    assert!(matches!(&refused, Error::Refused { text, .. } if text.starts_with("READONLY")), "{refused}");
}

#[tokio::test]
async fn a_frozen_primary_is_replaced_as_well() {
    let group = SentinelGroup::start().await.unwrap();
    let old = group.primary().await.unwrap();
    old.pause().unwrap();
    let new = group.until_promoted_after(old).await.unwrap();
    assert_ne!(new, old);
    old.resume().unwrap();
    group.until_settled().await.unwrap();
    assert_ne!(group.primary().await.unwrap(), old);
}

#[tokio::test]
async fn a_group_with_a_password_switches_over_and_refuses_whoever_lacks_it() {
    let group = SentinelGroup::builder().password("s3cret").start().await.unwrap();
    assert!(group.url().starts_with("redis-sentinel://:s3cret@127.0.0.1:"), "{}", group.url());
    assert!(!format!("{group:?}").contains("s3cret"), "{group:?}");
    let old = group.primary().await.unwrap();
    let new = group.switch_over().await.unwrap();
    assert_ne!(new, old);
    group.until_settled().await.unwrap();
    assert_eq!(old.command(&["ROLE"]).await.unwrap().lines().next(), Some("slave"));
    let present = group.primary().await.unwrap().addr().to_string();
    eventually("all sentinels tell of the new one", async || {
        let mut told = Vec::new();
        for sentinel in group.sentinels() {
            told.push(told_by(sentinel).await);
        }
        told.iter().all(|addr| *addr == present)
    })
    .await;
}

#[tokio::test]
async fn a_sentinel_that_was_restarted_still_knows_the_group() {
    let group = SentinelGroup::start().await.unwrap();
    group.sentinels()[0].restart().await.unwrap();
    group.until_settled().await.unwrap();
    assert_eq!(told_by(&group.sentinels()[0]).await, group.servers()[0].addr().to_string());
}
