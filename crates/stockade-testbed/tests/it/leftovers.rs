use std::time::Duration;

use stockade_testbed::{Leftovers, RedisCluster, RedisServer, SentinelGroup};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
    time::timeout,
};

use crate::support::slot_of;

/// A client that has sent `command` and stays connected.
async fn client(server: &RedisServer, command: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.addr()).await.unwrap();
    stream.write_all(format!("{command}\r\n").as_bytes()).await.unwrap();
    let mut stream = BufReader::new(stream);
    let mut answer = String::new();
    stream.read_line(&mut answer).await.unwrap();
    assert!(!answer.starts_with('-'), "{answer}");
    stream.into_inner()
}

#[tokio::test]
async fn each_kind_of_leftover_is_seen_on_a_server() {
    let redis = RedisServer::start().await.unwrap();
    assert_eq!(redis.leftovers().await.unwrap(), Leftovers::default());
    redis.command(&["SET", "shop:v1:{0}l:stock:1", "state"]).await.unwrap();
    assert_eq!(redis.leftovers().await.unwrap().keys, ["shop:v1:{0}l:stock:1"]);
    let _channel = client(&redis, "SUBSCRIBE shop:v1:i:process").await;
    assert_eq!(redis.leftovers().await.unwrap().channels, ["shop:v1:i:process"]);
    let _shard = client(&redis, "SSUBSCRIBE shop:v1:{0}i:process").await;
    assert_eq!(redis.leftovers().await.unwrap().channels.len(), 2);
    let _named = client(&redis, "CLIENT SETNAME stockade:lock").await;
    let clients = redis.leftovers().await.unwrap().clients;
    assert!(matches!(&clients[..], [one] if one.starts_with("stockade:lock 127.0.0.1:")), "{clients:?}");
}

#[tokio::test]
async fn floors_and_connections_of_others_are_no_leftovers() {
    let redis = RedisServer::start().await.unwrap();
    redis.command(&["SET", "shop:v1:{0}f", "1"]).await.unwrap();
    let _named = client(&redis, "CLIENT SETNAME shop").await;
    redis.until_nothing_is_left().await.unwrap();
    redis.command(&["SET", "shop:v1:{0}e:stock:1", "an entry"]).await.unwrap();
    assert_eq!(redis.leftovers().await.unwrap().keys, ["shop:v1:{0}e:stock:1"]);
    redis.until_nothing_is_left_but(|name| name.starts_with("shop:v1:{0}e:")).await.unwrap();
}

#[tokio::test]
async fn waiting_goes_on_until_the_last_leftover_is_gone() {
    let redis = RedisServer::start().await.unwrap();
    redis.command(&["SET", "key", "value"]).await.unwrap();
    let named = client(&redis, "CLIENT SETNAME stockade:lock").await;
    let gone = redis.until_nothing_is_left();
    tokio::pin!(gone);
    assert!(timeout(Duration::from_millis(200), &mut gone).await.is_err());
    redis.command(&["DEL", "key"]).await.unwrap();
    assert!(timeout(Duration::from_millis(200), &mut gone).await.is_err());
    drop(named);
    gone.await.unwrap();
}

#[tokio::test]
async fn a_group_is_searched_on_its_present_primary_and_on_every_server_and_sentinel() {
    let group = SentinelGroup::start().await.unwrap();
    assert_eq!(group.leftovers().await.unwrap(), Leftovers::default());
    group.failover().await.unwrap();
    group.until_settled().await.unwrap();
    group.primary().await.unwrap().command(&["SET", "key", "value"]).await.unwrap();
    let replicas = group.replicas().await.unwrap();
    let running = replicas.into_iter().find(|replica| replica.pid() != 0).unwrap();
    let _on_a_replica = client(running, "SUBSCRIBE inbox").await;
    let _on_a_sentinel = client(&group.sentinels()[1], "CLIENT SETNAME stockade:watch").await;
    let left = group.leftovers().await.unwrap();
    assert_eq!((left.keys, left.channels), (vec!["key".to_owned()], vec!["inbox".to_owned()]));
    assert!(matches!(&left.clients[..], [one] if one.starts_with("stockade:watch ")), "{:?}", left.clients);
    group.sentinels()[0].kill().await.unwrap();
    group
        .until_nothing_is_left_but(|name| ["key", "inbox", "stockade:"].iter().any(|own| name.starts_with(own)))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_cluster_is_searched_on_every_node() {
    let cluster = RedisCluster::start().await.unwrap();
    assert_eq!(cluster.leftovers().await.unwrap(), Leftovers::default());
    for key in ["{a}1", "{b}1", "{c}1"] {
        let primary = cluster.primary_of(slot_of(&cluster, key).await).await.unwrap();
        primary.command(&["SET", key, "value"]).await.unwrap();
        assert_eq!(primary.command(&["WAIT", "1", "5000"]).await.unwrap(), "1");
    }
    let primary = cluster.primary_of(slot_of(&cluster, "{a}").await).await.unwrap();
    let _inbox = client(primary, "SSUBSCRIBE {a}inbox").await;
    let _named = client(&cluster.nodes()[5], "CLIENT SETNAME stockade:lock").await;
    let mut left = cluster.leftovers().await.unwrap();
    left.keys.sort();
    assert_eq!((left.keys.join(" "), left.channels.join(" ")), ("{a}1 {b}1 {c}1".into(), "{a}inbox".into()));
    assert_eq!(left.clients.len(), 1);
}
