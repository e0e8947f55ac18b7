//! The link behind sentinels.

use std::time::Duration;

use stockade_testbed::SentinelGroup;
use tokio::time::{Instant, sleep};

use super::{append, list, open, until, until_tried, up};
use crate::redis::{
    ConnectError, Pool, Redis,
    dial::{HandshakeError, LookError, process_of},
};

#[tokio::test]
async fn the_primary_is_found_by_whichever_sentinels_answer() {
    let group = SentinelGroup::start().await.unwrap();
    // A frozen sentinel costs nothing while a majority answers.
    group.sentinels()[0].pause().unwrap();
    let redis = Redis::connect(group.url()).await.unwrap();
    let opened = redis.dialer().open(None).await.unwrap();
    let info = group.primary().await.unwrap().command(&["INFO", "server"]).await.unwrap();
    assert!(info.contains(&format!("run_id:{}", process_of(&opened.run_id))));
    group.sentinels()[1].kill().await.unwrap();
    let since = Instant::now();
    assert_eq!(redis.dialer().open(None).await.unwrap().run_id, opened.run_id);
    assert!(since.elapsed() < Duration::from_secs(2), "{:?}", since.elapsed());
    group.sentinels()[2].kill().await.unwrap();
    let none = redis.dialer().open(None).await.err().expect("there is no sentinel");
    assert!(matches!(none, HandshakeError::Sentinel(LookError::Silence)), "{none}");
}

#[tokio::test]
async fn a_sentinel_that_missed_the_last_failover_is_not_believed() {
    let group = SentinelGroup::start().await.unwrap();
    let redis = Redis::connect(group.url()).await.unwrap();
    let old = group.primary().await.unwrap();
    let [first, second, outdated] = group.sentinels() else { panic!("three sentinels") };
    outdated.kill().await.unwrap();
    let primary = group.failover().await.unwrap();
    let opened = redis.dialer().open(None).await.unwrap();
    let info = primary.command(&["INFO", "server"]).await.unwrap();
    assert!(info.contains(&format!("run_id:{}", process_of(&opened.run_id))));
    // Now only the outdated sentinel answers. It names the old primary, which still believes that it is the primary.
    first.pause().unwrap();
    second.pause().unwrap();
    old.restart().await.unwrap();
    outdated.restart().await.unwrap();
    assert_eq!(redis.dialer().open(None).await.unwrap().run_id, opened.run_id, "it used the old primary");
}

/// As after a new setting of one sentinel. Which sentinels answer first is chance.
#[tokio::test]
async fn a_sentinel_that_knows_the_primary_by_another_name_hinders_nobody() {
    let group = SentinelGroup::start().await.unwrap();
    let port = group.primary().await.unwrap().addr().port().to_string();
    let odd = &group.sentinels()[0];
    odd.command(&["SENTINEL", "REMOVE", SentinelGroup::NAME]).await.unwrap();
    odd.command(&["SENTINEL", "MONITOR", SentinelGroup::NAME, "127.0.0.2", &port, "2"]).await.unwrap();
    let redis = Redis::connect(group.url()).await.unwrap();
    for _ in 0..20 {
        let opened = redis.dialer().open(None).await.unwrap();
        assert!(format!("{:?}", opened.place).contains("127.0.0.1"), "{:?}", opened.place);
    }
}

#[tokio::test]
async fn an_attempt_at_a_silent_primary_ends_when_another_takes_over() {
    let group = SentinelGroup::start().await.unwrap();
    let redis = Redis::connect(group.url()).await.unwrap();
    let old = group.primary().await.unwrap();
    old.pause().unwrap();
    let attempt = async {
        loop {
            match redis.dialer().open(None).await {
                Err(HandshakeError::Moved) => break,
                Err(_) => {}
                Ok(opened) => panic!("the attempt went on until its time-out: {:?}", opened.place),
            }
        }
    };
    let failover = async {
        group.sentinels()[0].command(&["SENTINEL", "FAILOVER", SentinelGroup::NAME]).await.unwrap();
        group.until_promoted_after(old).await.unwrap();
    };
    tokio::select! {
        _ = async { tokio::join!(attempt, failover) } => {}
        () = redis.dialer().watch() => {}
    }
}

#[tokio::test]
async fn what_no_waiting_mends_is_refused_at_once() {
    let group = SentinelGroup::builder().password("s3cret").start().await.unwrap();
    let refused = async |url: &str| {
        let error = Redis::connect(url).await.expect_err("it was accepted");
        assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
        error
    };
    let unknown = refused(&group.url().replace(SentinelGroup::NAME, "another")).await;
    assert!(matches!(&unknown, ConnectError::Config { reason } if reason.contains("`another`")), "{unknown}");
    let wrong = refused(&group.url().replace("s3cret", "wrong-s3cret")).await;
    assert!(matches!(wrong, ConnectError::Credentials), "{wrong}");
    for sentinel in group.sentinels() {
        sentinel.command(&["ACL", "SETUSER", "default", ">s3cret-too"]).await.unwrap();
    }
    let closed = refused(&group.url()).await;
    assert!(matches!(&closed, ConnectError::Config { reason } if reason.contains("sentinel_password")), "{closed}");
    let url = format!("{}?sentinel_password=s3cret-too", group.url());
    let redis = Redis::connect(&url).await.unwrap();
    assert!(!format!("{redis:?}").contains("s3cret"));
    let (link, _) = open(&redis).await;
    up(&link).await;
    append(&link, "x").await.unwrap();
}

#[tokio::test]
async fn an_evicting_primary_is_refused() {
    let group = SentinelGroup::builder().arg("--maxmemory-policy").arg("allkeys-lru").start().await.unwrap();
    let error = Redis::connect(group.url()).await.unwrap_err();
    assert!(matches!(&error, ConnectError::Evicts { policy } if policy == "allkeys-lru"), "{error:?}");
    let redis = Redis::builder(group.url()).allow_eviction().connect().await.unwrap();
    let (link, _) = open(&redis).await;
    up(&link).await;
}

#[tokio::test]
async fn an_evicting_server_that_is_promoted_keeps_the_link_closed() {
    let group = SentinelGroup::start().await.unwrap();
    let redis = Redis::connect(group.url()).await.unwrap();
    let (link, seen) = open(&redis).await;
    up(&link).await;
    for replica in group.replicas().await.unwrap() {
        replica.command(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]).await.unwrap();
    }
    let primary = group.failover().await.unwrap();
    until_tried(primary, 3).await;
    assert_eq!(seen.ups.lock().unwrap().len(), 1);
    primary.command(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]).await.unwrap();
    until("a connection to the new primary", || seen.ups.lock().unwrap().len() == 2).await;
}

#[tokio::test]
async fn the_pool_leads_to_the_primary_too() {
    let group = SentinelGroup::builder().password("s3cret").start().await.unwrap();
    let redis = Redis::connect(group.url()).await.unwrap();
    let Some(Pool::Sentinel(pool)) = redis.pool() else { panic!("another kind of pool") };
    let mut connection = pool.get().await.unwrap();
    let role: Vec<redis::Value> = redis::cmd("ROLE").query_async(&mut connection).await.unwrap();
    assert_eq!(role[0], redis::Value::BulkString(b"master".to_vec()));
    let config = deadpool_redis::sentinel::Config {
        node_connection_info: Some(deadpool_redis::sentinel::SentinelNodeConnectionInfo {
            tls_mode: None,
            redis_connection_info: Some(deadpool_redis::RedisConnectionInfo {
                password: Some("s3cret".to_owned()),
                ..deadpool_redis::RedisConnectionInfo::default()
            }),
        }),
        ..deadpool_redis::sentinel::Config::from_urls(
            group.sentinel_addrs().iter().map(|addr| format!("redis://{addr}")).collect::<Vec<_>>(),
            SentinelGroup::NAME.to_owned(),
            deadpool_redis::sentinel::SentinelServerType::Master,
        )
    };
    let (link, _) = open(&Redis::connect(config).await.unwrap()).await;
    up(&link).await;
    append(&link, "x").await.unwrap();
}

#[tokio::test]
async fn a_replica_is_not_used_whoever_names_it() {
    let group = SentinelGroup::start().await.unwrap();
    let redis = Redis::connect(group.url()).await.unwrap();
    let (old, other) = (group.primary().await.unwrap(), group.replicas().await.unwrap()[0]);
    // The sentinels find out after some seconds.
    old.command(&["REPLICAOF", "127.0.0.1", &other.port().to_string()]).await.unwrap();
    let error = redis.dialer().open(None).await.err().expect("it used a replica");
    assert!(matches!(error, HandshakeError::NotPrimary { .. }), "{error}");
}

#[tokio::test]
async fn a_primary_that_the_sentinels_are_told_to_watch_instead_is_moved_to_without_a_failover() {
    let group = SentinelGroup::start().await.unwrap();
    let (link, _) = open(&Redis::connect(group.url()).await.unwrap()).await;
    up(&link).await;
    let next = group.replicas().await.unwrap()[0];
    for sentinel in group.sentinels() {
        sentinel.command(&["SENTINEL", "REMOVE", SentinelGroup::NAME]).await.unwrap();
    }
    next.command(&["REPLICAOF", "NO", "ONE"]).await.unwrap();
    let port = next.port().to_string();
    for sentinel in group.sentinels() {
        sentinel.command(&["SENTINEL", "MONITOR", SentinelGroup::NAME, "127.0.0.1", &port, "2"]).await.unwrap();
    }
    let limit = Instant::now() + Duration::from_secs(40);
    while !(link.is_up() && link.generation() > 1) {
        assert!(Instant::now() < limit, "it stays with the old primary");
        sleep(Duration::from_millis(10)).await;
    }
    append(&link, "x").await.unwrap();
    assert_eq!(list(next).await, ["x"]);
}
