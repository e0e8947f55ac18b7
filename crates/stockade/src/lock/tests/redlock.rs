use stockade_testbed::{Proxy, RedisServer};

use crate::{
    Locks, Redis,
    lock::{RedlockBuilder, RedlockError},
};

/// `N` servers with addresses of their own, where nothing needs to listen.
async fn servers<const N: usize>() -> [Redis; N] {
    let mut port = 0;
    let connects = [(); N].map(|()| {
        port += 1;
        Redis::connect(format!("redis://127.0.0.1:{port}"))
    });
    futures_util::future::join_all(connects)
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect::<Vec<_>>()
        .try_into()
        .unwrap()
}

fn on(servers: impl IntoIterator<Item = Redis>) -> RedlockBuilder {
    Locks::builder().redlock(servers)
}

#[tokio::test]
async fn fewer_than_three_servers_are_refused() {
    let servers = servers::<3>().await;
    for given in 0..3 {
        let refused = on(servers[..given].to_vec()).build();
        assert_eq!(refused.err(), Some(RedlockError::TooFew { given }));
    }
    assert!(on(servers).build().is_ok());
}

#[tokio::test]
async fn a_server_that_is_given_twice_is_refused_by_its_address_and_by_its_run() {
    let [one, two, three] = servers().await;
    let again = Redis::connect("redis://127.0.0.1:2/7").await.unwrap();
    let refused = on([one, two, three, again]).build().unwrap_err();
    assert_eq!(refused, RedlockError::Same { first: 2, second: 4 });

    let servers = RedisServer::start_many(2).await.unwrap();
    let proxy = Proxy::start(servers[1].addr()).await.unwrap();
    let urls = [servers[0].url(), servers[1].url(), proxy.url_for(&servers[1].url())];
    let mut handles = Vec::new();
    for url in urls {
        handles.push(Redis::connect(url).await.unwrap());
    }
    assert_eq!(on(handles).build().unwrap_err(), RedlockError::Same { first: 2, second: 3 });
}

#[tokio::test]
async fn a_cluster_is_no_independent_server() {
    let cluster = deadpool_redis::cluster::Config::from_urls(vec!["redis://127.0.0.1:1".to_owned()]);
    let cluster = Redis::connect(cluster).await.unwrap();
    let [one, two] = servers().await;
    let refused = on([one, two, cluster]).build();
    assert_eq!(refused.err(), Some(RedlockError::Cluster));
}
