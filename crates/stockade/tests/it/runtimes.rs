//! A runtime that begins something for others and then stands still: a program that blocks on one call, or a runtime for
//! each thread.

use std::{convert::Infallible, pin::pin, sync::Arc, time::Duration};

use stockade::{Cache, Locks, Redis};
use stockade_testbed::eventually;
use tokio::{
    runtime::{Builder, Runtime},
    sync::Semaphore,
    time::timeout,
};

use crate::{resources::Sku, world::World};

/// More than a call takes that nobody holds up.
const LIMIT: Duration = Duration::from_secs(20);

/// A runtime that runs only while a test blocks on it.
fn aside() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Waits until a delegation is asked for.
async fn asked_for(locks: &Locks) {
    let seen = async || {
        locks.inspect(&Sku("a")).await.is_ok_and(|seen| seen.waiters.iter().any(|waiter| &*waiter.tag == "delegation"))
    };
    eventually("a delegation is asked for", seen).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_goes_on_while_the_runtime_that_began_it_stands_still() {
    let world = World::start().await;
    let redis = Redis::connect(world.url()).await.unwrap();
    let [begun, gate] = [(); 2].map(|()| Arc::new(Semaphore::new(0)));
    let (tells, held) = (Arc::clone(&begun), Arc::clone(&gate));
    let load = move |_: Sku| {
        let (tells, held) = (Arc::clone(&tells), Arc::clone(&held));
        async move {
            tells.add_permits(1);
            Ok::<_, Infallible>(held.acquire().await.ok().map(|_| 7))
        }
    };
    let stocks = Cache::builder(&redis).loader(load).build();
    let first = stocks.clone();
    let stalled = tokio::task::spawn_blocking(move || {
        let aside = aside();
        aside.block_on(async {
            tokio::select! {
                _ = first.get(&Sku("a")) => panic!("the load is held"),
                begun = timeout(LIMIT, begun.acquire()) => drop(begun.unwrap().unwrap()),
            }
        });
        aside
    });
    let stalled = stalled.await.unwrap();
    gate.add_permits(1);
    let second = timeout(LIMIT, stocks.get(&Sku("a"))).await.expect("waits for a load that nobody runs").unwrap();
    assert_eq!(second.value.as_deref(), Some(&7));
    stalled.shutdown_background();
    stocks.shutdown(LIMIT).await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delegation_is_granted_while_the_runtime_that_asked_for_it_stands_still() {
    let world = World::start().await;
    let locks = Locks::new(&Redis::connect(world.url()).await.unwrap());
    let writer = locks.write(&Sku("a")).acquire().await.unwrap();
    let first = locks.clone();
    let stalled = tokio::task::spawn_blocking(move || {
        let aside = aside();
        aside.block_on(async {
            let mut asked = pin!(asked_for(&first));
            // The first reads lock by themselves: only counts decide that a delegation pays.
            loop {
                let read = first.read(&Sku("a")).wait(LIMIT).delegate().acquire();
                tokio::select! {
                    () = &mut asked => break,
                    read = timeout(Duration::from_millis(100), read) => assert!(read.is_err(), "a writer holds the lock"),
                }
            }
        });
        aside
    });
    let stalled = stalled.await.unwrap();
    writer.release().await.unwrap();
    let read = locks.read(&Sku("a")).wait(LIMIT).delegate().acquire();
    drop(read.await.expect("waits for an attempt that nobody makes"));
    stalled.shutdown_background();
    locks.shutdown(LIMIT).await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_in_memory_ends_while_the_runtime_in_which_it_began_stands_still() {
    let locks = Locks::memory();
    let first = locks.clone();
    let stalled = tokio::task::spawn_blocking(move || {
        let aside = aside();
        let begun =
            async { first.write(&Sku("a")).lease(Duration::from_millis(500)).acquire().await.unwrap().hand_over() };
        (aside.block_on(begun).unwrap(), aside)
    });
    // Nobody adopts it.
    let (_handover, aside) = stalled.await.unwrap();
    let next = locks.write(&Sku("a")).wait(Duration::MAX).acquire();
    drop(timeout(LIMIT, next).await.expect("waits for a lease that nobody ends").unwrap());
    aside.shutdown_background();
}

#[test]
fn a_cache_outlives_the_runtime_of_its_connections() {
    let runtime = || Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (of_world, first) = (runtime(), runtime());
    let world = of_world.block_on(World::start());
    let stocks = first.block_on(async {
        let redis = Redis::connect(world.url()).await.unwrap();
        let stocks = Cache::builder(&redis).loader(async |_: Sku| Ok::<_, Infallible>(Some(7))).build();
        assert_eq!(stocks.get(&Sku("a")).await.unwrap().value.as_deref(), Some(&7));
        stocks
    });
    drop(first);
    let found = aside().block_on(async { timeout(LIMIT, stocks.get(&Sku("b"))).await.unwrap() }).unwrap();
    assert_eq!((found.value.as_deref(), found.info.degraded), (Some(&7), true));
    drop(stocks);
    of_world.block_on(world.end());
}
