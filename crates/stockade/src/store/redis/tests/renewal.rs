use std::time::Duration;

use futures_util::future::join_all;
use stockade_testbed::{Fault, Proxy};
use tokio::time::{sleep, timeout};

use super::{LIMIT, World, connected, key, write};
use crate::{redis::Redis, store::LockStore};

/// The network swallows the rest after the first confirmations of a long pipeline came through.
#[tokio::test]
async fn confirmations_count_although_replies_behind_them_never_come() {
    const LOCKS: usize = 1000;
    let world = World::start().await;
    let proxy = Proxy::start(world.server.addr()).await.unwrap();
    // A thousand commands at once take a busy machine longer than one may take by default.
    let redis = Redis::builder(proxy.url_for(&world.server.url())).command_timeout(LIMIT);
    let store = connected(&redis.connect().await.unwrap()).await;
    let held = join_all((0..LOCKS).map(|n| store.acquire(write(&key(&n.to_string())))));
    let held: Vec<_> = held.await.into_iter().map(Result::unwrap).collect();
    // Opens the renewal connection, too.
    store.renew(&held).await.unwrap();

    // Some confirmations come through before the fault begins. Repeat until some do and some don't.
    for _ in 0..100 {
        let before: Vec<_> = held.iter().map(|ownership| ownership.deadline()).collect();
        let confirmed = || held.iter().zip(&before).filter(|(held, before)| held.deadline() > **before).count();
        let swallow = async {
            while confirmed() == 0 {
                tokio::task::yield_now().await;
            }
            proxy.set(Fault::Hole);
            sleep(Duration::from_millis(50)).await;
        };
        tokio::select! {
            _ = store.renew(&held) => {}
            () = swallow => {}
        }
        let some = confirmed();
        proxy.set(Fault::None);
        if (1..LOCKS).contains(&some) {
            timeout(LIMIT, join_all(held.iter().map(|held| store.release(held)))).await.unwrap();
            world.until_nothing_is_left().await;
            return world.end_behind(proxy).await;
        }
    }
    panic!("a batch counted as a whole or not at all");
}

#[tokio::test]
async fn locks_of_all_buckets_are_renewed_a_hundred_in_a_script() {
    let world = World::start().await;
    let store = world.store().await;
    let held = join_all((0..250).map(|n| store.acquire(write(&key(&n.to_string()))))).await;
    let held: Vec<_> = held.into_iter().map(Result::unwrap).collect();
    // Opens the renewal connection.
    store.renew(&held).await.unwrap();
    world.command(&["CONFIG", "RESETSTAT"]).await;
    store.renew(&held).await.unwrap();
    assert_eq!(world.server.calls_of("evalsha").await.unwrap(), 3);
    join_all(held.iter().map(|held| store.release(held))).await;
    world.end().await;
}
