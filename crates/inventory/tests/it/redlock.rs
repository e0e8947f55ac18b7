//! The service with its locks on a quorum of independent servers.

use futures_util::future::join_all;
use stockade_testbed::RedisServer;

use crate::stage::{Stage, until};

#[tokio::test]
async fn a_quorum_of_servers_locks_reads_and_writes_and_bears_the_loss_of_two() {
    let (stage, servers) = tokio::join!(Stage::start(), join_all((0..5).map(|_| RedisServer::start())));
    let mut servers: Vec<_> = servers.into_iter().map(Result::unwrap).collect();
    let hosts: Vec<_> = servers.iter().map(|server| server.url().replace("redis://", "")).collect();
    let url = format!("redlock://{}", hosts.join(","));
    let instance = stage.serve(&[("LOCK_REDIS_URL", &url)]).await;

    assert_eq!(instance.put("A", 5).await.status, 201);
    let first = instance.adjust("A", -1).await;
    assert_eq!(first.status, 200, "{first:?}");
    let read = instance.get("/stock/A").await;
    assert_eq!((read.status.as_u16(), &read.json()["quantity"]), (200, &4.into()), "{read:?}");
    assert!(!read.header("etag").is_empty(), "it was read under its lock: {read:?}");

    servers.truncate(3);
    until("three of five grant", async || instance.adjust("A", -1).await.status == 200).await;
    let is = async |breaker: &str, state: &str| {
        let series = format!("stockade_breaker_state{{breaker=\"{breaker}\",state=\"{state}\"}} 1\n");
        instance.metrics().await.contains(&series)
    };
    until("the breakers of the two are open", async || {
        instance.adjust("A", 1).await;
        is("redlock_node", "open").await
    })
    .await;
    assert!(is("redis_lock", "closed").await, "a quorum answers");
    let later = instance.adjust("A", -1).await.json();
    assert!(later["fencing_token"].as_u64() > first.json()["fencing_token"].as_u64(), "{later}");

    servers.truncate(2);
    let refused = instance.adjust("A", -1).await;
    assert_eq!(refused.status, 503, "two of five are no quorum: {refused:?}");
    until("the breaker of the quorum is open", async || {
        instance.adjust("A", -1).await;
        is("redis_lock", "open").await
    })
    .await;
}
