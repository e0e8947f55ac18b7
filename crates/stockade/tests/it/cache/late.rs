//! Callers that join a load and know of a write that the load does not contain.

use std::{
    sync::{Arc, mpsc},
    time::Duration,
};

use stockade::{Cache, Redis};
use stockade_testbed::{Fault, Proxy};
use tokio::{
    runtime,
    task::JoinSet,
    time::{sleep, timeout},
};

use super::support::{
    Database, Loading, caught_up, crowd, ended, eventually, held_load, one_read, process, quantity, sku, stored,
};
use crate::{redis_traffic::calls, world::World};

#[tokio::test]
async fn a_reader_that_came_after_a_write_does_not_take_the_load_that_began_before_it() {
    let server = World::start().await;
    let database = Database::with(&[("a", 0)]);
    let stocks = process(&server).await.on(&database).await;
    // Another process writes, since an invalidation of its own would keep later readers of this process from the load.
    let writer = process(&server).await.on(&database).await;

    let (gate, mut early) = held_load(&database, &stocks, "a").await;
    database.write("a", Some(1));
    writer.invalidate(&sku("a")).await.unwrap();
    let mut late = crowd(&stocks, "a");
    database.open();
    caught_up(&stocks).await;
    gate.add_permits(1);
    ended(&mut early).await;
    while let Some(found) = late.join_next().await {
        assert_eq!(quantity(&found.unwrap().unwrap()), Some(1));
    }
    assert_eq!(database.loads(), 3, "one of theirs beside the first, and that of what was read to catch up");
    server.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_reader_that_came_after_a_write_does_not_join_a_fill_under_way() {
    const WAY: Duration = Duration::from_secs(1);
    let server = Arc::new(World::start().await);
    // The proxy goes on while the only thread of the test's runtime is kept busy.
    let outside = runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let proxy = outside.spawn(Proxy::start(server.addr())).await.unwrap().unwrap();
    let database = Database::with(&[("a", 0)]);
    let far = Redis::builder(proxy.url_for(&server.url())).command_timeout(Duration::from_secs(20));
    let far = Cache::builder(&far.connect().await.unwrap().namespace("shop")).on(&database).await;
    let writer = process(&server).await.on(&database).await;

    let (gate, mut early) = held_load(&database, &far, "a").await;
    database.open();
    proxy.set(Fault::Delay(WAY));
    gate.add_permits(1);
    eventually("the fill has arrived", || async { stored(&server, "a").await }).await;
    // The reply to the fill is still on its way.
    database.write("a", Some(1));
    writer.invalidate(&sku("a")).await.unwrap();
    let mut late = one_read(&far, "a");
    // Both replies arrive before the test's thread reads either, so the runtime decides which caller goes on first.
    let (go_on, wait) = mpsc::channel::<()>();
    let mut busy = JoinSet::new();
    busy.spawn(async move {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        let _ = wait.recv();
    });
    let asked = Arc::clone(&server);
    let both_there = async move {
        // One HGET for each reader, and two by the script of the first fill.
        let four_calls = async {
            while calls(&asked).await.get("hget").is_none_or(|count| *count < 4) {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(Duration::from_secs(30), four_calls).await.expect("both have asked");
        sleep(WAY + WAY / 5).await;
    };
    outside.spawn(both_there).await.unwrap();
    drop(go_on);
    assert_eq!(quantity(&ended(&mut late).await), Some(1));
    ended(&mut early).await;
    Arc::into_inner(server).unwrap().end_behind(proxy).await;
    outside.shutdown_background();
}
