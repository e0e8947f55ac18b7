use crate::{
    Locks, Redis,
    lock::{RedlockBuilder, RedlockError},
};

/// A server that need not be there.
async fn server() -> Redis {
    Redis::connect("redis://127.0.0.1:1").await.unwrap()
}

fn on(servers: impl IntoIterator<Item = Redis>) -> RedlockBuilder {
    Locks::builder().redlock(servers)
}

#[tokio::test]
async fn fewer_than_three_servers_are_refused() {
    let server = server().await;
    for given in 0..3 {
        let refused = on(vec![server.clone(); given]).build();
        assert_eq!(refused.err(), Some(RedlockError::TooFew { given }));
    }
    assert!(on(vec![server; 3]).build().is_ok());
}

#[cfg(feature = "cluster")]
#[tokio::test]
async fn a_cluster_is_no_independent_server() {
    let cluster = deadpool_redis::cluster::Config::from_urls(vec!["redis://127.0.0.1:1".to_owned()]);
    let cluster = Redis::connect(cluster).await.unwrap();
    let refused = on([server().await, server().await, cluster]).build();
    assert_eq!(refused.err(), Some(RedlockError::Cluster));
}
