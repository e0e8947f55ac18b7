//! Servers that answer but can't be used, and settings that can't, so that waiting does not help.

use std::time::Duration;

use stockade_testbed::RedisServer;

use super::{append, open, up};
use crate::{
    redis::{ConnectError, Redis},
    resource::KeyError,
};

async fn refusal(url: &str) -> ConnectError {
    Redis::connect(url).await.expect_err(url)
}

/// A node without slots. It still tells clients that it is part of a cluster.
async fn node() -> RedisServer {
    RedisServer::builder().cluster_node().start().await.unwrap()
}

#[tokio::test]
async fn a_namespace_that_is_no_name_is_refused() {
    let redis = Redis::connect("redis://127.0.0.1:1").await.unwrap();
    assert_eq!(redis.clone().try_namespace("My Shop").unwrap_err(), KeyError::Name("My Shop".into()));
    assert_eq!(redis.try_namespace("my_shop").unwrap().key_prefix().to_string(), "my_shop:v1:");
}

#[tokio::test]
async fn a_command_time_out_that_no_clock_keeps_is_refused() {
    let connect = async |timeout| Redis::builder("redis://127.0.0.1:1").command_timeout(timeout).connect().await;
    for timeout in [Duration::ZERO, Duration::from_micros(999), Duration::from_secs(3601), Duration::MAX] {
        let refused = connect(timeout).await.unwrap_err();
        assert!(matches!(refused, ConnectError::Config { .. }), "{refused}");
    }
    for timeout in [Duration::from_millis(1), Duration::from_secs(3600)] {
        connect(timeout).await.unwrap();
    }
}

#[tokio::test]
async fn a_replica_is_refused_with_the_address_of_its_primary() {
    let primary = RedisServer::start().await.unwrap();
    let replica = RedisServer::builder().replica_of(&primary).start().await.unwrap();
    let refused = refusal(&replica.url()).await;
    let ConnectError::Replica { primary: named } = &refused else { panic!("{refused:?}") };
    assert_eq!(*named, primary.addr().to_string());
    // A replica is also refused while its primary is down.
    primary.kill().await.unwrap();
    assert!(matches!(refusal(&replica.url()).await, ConnectError::Replica { .. }));
    replica.command(&["REPLICAOF", "NO", "ONE"]).await.unwrap();
    let (link, _) = open(&Redis::connect(replica.url()).await.unwrap()).await;
    up(&link).await;
}

#[tokio::test]
async fn a_node_of_a_cluster_is_no_single_server() {
    let node = node().await;
    for database in ["", "/1"] {
        let refused = refusal(&format!("{}{database}", node.url())).await;
        assert!(refused.to_string().contains("redis-cluster://"), "{refused}");
    }
}

#[tokio::test]
async fn a_single_server_is_no_node_of_a_cluster_but_beside_one_it_hinders_nobody() {
    let (single, node) = (RedisServer::start().await.unwrap(), node().await);
    let refused = refusal(&format!("redis-cluster://{}", single.addr())).await;
    assert!(matches!(refused, ConnectError::Kind { .. }) && refused.to_string().contains("`redis://`"), "{refused}");
    for url in [format!("{},{}", single.addr(), node.addr()), format!("127.0.0.1:1,{}", node.addr())] {
        Redis::connect(format!("redis-cluster://{url}")).await.unwrap();
    }
    // Not reached yet by a change of passwords.
    let late = RedisServer::builder().cluster_node().password("late").start().await.unwrap();
    Redis::connect(format!("redis-cluster://{},{}", late.addr(), node.addr())).await.unwrap();
    let refused = refusal(&format!("redis-cluster://{}", late.addr())).await;
    assert!(matches!(refused, ConnectError::Credentials), "{refused}");
    // A fault of another server than the first is found, too.
    let evicts =
        RedisServer::builder().cluster_node().arg("--maxmemory-policy").arg("allkeys-lru").start().await.unwrap();
    let refused = refusal(&format!("redis-cluster://{},{}", node.addr(), evicts.addr())).await;
    assert!(matches!(refused, ConnectError::Evicts { .. }), "{refused}");
}

#[tokio::test]
async fn a_server_too_old_for_the_protocol_is_refused_without_its_words() {
    let old = RedisServer::builder().args(["--rename-command", "HELLO", ""]).start().await.unwrap();
    let refused = refusal(&old.url().replace("redis://", "redis://:s3cret@")).await;
    assert!(matches!(refused, ConnectError::Version { .. }), "{refused}");
    assert!(!format!("{refused} {refused:?}").contains("s3cret"));
}

#[tokio::test]
async fn a_sentinel_and_a_server_are_not_taken_for_each_other() {
    use stockade_testbed::SentinelGroup;

    let group = SentinelGroup::start().await.unwrap();
    let sentinel = group.sentinel_addrs()[0];
    let refused = refusal(&format!("redis://{sentinel}")).await;
    assert!(refused.to_string().contains("redis-sentinel://"), "{refused}");
    assert!(matches!(refusal(&format!("redis://{sentinel}/1")).await, ConnectError::Database { database: 1 }));
    assert!(matches!(refusal(&format!("redis-cluster://{sentinel}")).await, ConnectError::Kind { .. }));

    let server = group.primary().await.unwrap().addr();
    let name = SentinelGroup::NAME;
    let refused = refusal(&format!("redis-sentinel://{server}/{name}")).await;
    assert!(matches!(&refused, ConnectError::Config { reason } if reason.contains("no sentinel")), "{refused}");
    let [_, second, third] = group.sentinel_addrs()[..] else { panic!("three sentinels") };
    let (link, _) =
        open(&Redis::connect(format!("redis-sentinel://{server},{second},{third}/{name}")).await.unwrap()).await;
    up(&link).await;
    append(&link, "x").await.unwrap();
}

#[tokio::test]
async fn what_a_server_has_against_its_use_is_kept_until_it_is_used_or_gone() {
    let server = RedisServer::start().await.unwrap();
    let (link, _) = open(&Redis::connect(server.url()).await.unwrap()).await;
    up(&link).await;
    assert_eq!(link.unfit(), None);
    server.command(&["REPLICAOF", "127.0.0.1", "1"]).await.unwrap();
    // The first write finds out that the server is a replica.
    super::until("its words", || {
        drop(append(&link, "x"));
        link.unfit().is_some_and(|said| said.contains("replica of 127.0.0.1:1"))
    })
    .await;
    server.kill().await.unwrap();
    super::until("silence", || link.unfit().is_none()).await;
    server.restart().await.unwrap();
    up(&link).await;
    assert_eq!(link.unfit(), None);
}
