//! The log while a server goes away and comes back.

use std::{convert::Infallible, time::Duration};

use stockade::{Cache, Locks, Redis};
use stockade_testbed::RedisServer;
use tokio::time::sleep;

use super::support::{Sku, eventually};
use crate::log::Log;

#[tokio::test]
async fn an_outage_is_one_line_in_the_log_however_many_caches_and_attempts_meet_it() {
    let server = RedisServer::start().await.unwrap();
    let (log, _logging) = Log::start();
    let redis = Redis::connect(server.url()).await.unwrap();
    let caches = ["one", "two", "three"].map(|name| {
        Cache::builder(&redis).name(name).loader(|_: Sku| async { Ok::<_, Infallible>(Some(7_u32)) }).build()
    });
    let locks = Locks::new(&redis);
    let are_up = |up: bool| {
        let (caches, locks) = (&caches, &locks);
        move || async move { locks.is_degraded() != up && caches.iter().all(|cache| cache.is_degraded() != up) }
    };
    let lines = |words: &str| log.text().lines().filter(|line| line.contains(words)).count();
    eventually("all are connected", are_up(true)).await;
    assert_eq!(lines("connected to Redis"), 1, "{}", log.text());

    for outage in 1..=2 {
        server.kill().await.unwrap();
        eventually("all notice", are_up(false)).await;
        // Each of the four clients tries to connect several times meanwhile.
        sleep(Duration::from_secs(2)).await;
        server.restart().await.unwrap();
        eventually("all are connected again", are_up(true)).await;
        let told = (lines("can't connect to Redis"), lines("connected to Redis again"));
        assert_eq!(told, (outage, outage), "{}", log.text());
    }
    for cache in &caches {
        cache.shutdown(Duration::ZERO).await;
    }
    locks.shutdown(Duration::from_secs(5)).await;
}
