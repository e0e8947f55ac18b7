//! A runtime that begins something for others and then stands still: a program that blocks on one call, or a runtime for
//! each thread.

use std::{borrow::Cow, convert::Infallible, sync::Arc, time::Duration};

use stockade::{Cache, Locks, Redis, Resource};
use tokio::{
    runtime::{Builder, Runtime},
    sync::Semaphore,
    time::timeout,
};

use crate::world::World;

/// More than a call takes that nobody holds up.
const LIMIT: Duration = Duration::from_secs(20);

#[derive(Clone)]
struct Sku;

impl Resource for Sku {
    const KIND: &'static str = "stock";

    fn id(&self) -> Cow<'_, str> {
        Cow::Borrowed("a")
    }
}

/// A runtime that runs only while a test blocks on it.
fn aside() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_goes_on_while_the_runtime_that_began_it_stands_still() {
    let world = World::start().await;
    let redis = Redis::connect(world.url()).await.unwrap();
    let gate = Arc::new(Semaphore::new(0));
    let held = Arc::clone(&gate);
    let load = move |_: Sku| {
        let held = Arc::clone(&held);
        async move { Ok::<_, Infallible>(held.acquire().await.ok().map(|_| 7)) }
    };
    let stocks = Cache::builder(&redis).loader(load).build();
    let first = stocks.clone();
    let stalled = tokio::task::spawn_blocking(move || {
        let aside = aside();
        aside.block_on(async {
            let gave_up = timeout(Duration::from_millis(100), first.get(&Sku)).await.is_err();
            assert!(gave_up && first.stats().fetching > 0);
        });
        aside
    });
    let stalled = stalled.await.unwrap();
    gate.add_permits(1);
    let second = timeout(LIMIT, stocks.get(&Sku)).await.expect("waits for a load that nobody runs").unwrap();
    assert_eq!(second.value.as_deref(), Some(&7));
    stalled.shutdown_background();
    stocks.shutdown(LIMIT).await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delegation_is_granted_while_the_runtime_that_asked_for_it_stands_still() {
    let world = World::start().await;
    let locks = Locks::new(&Redis::connect(world.url()).await.unwrap());
    let writer = locks.write(&Sku).acquire().await.unwrap();
    let first = locks.clone();
    let stalled = tokio::task::spawn_blocking(move || {
        let aside = aside();
        aside.block_on(async {
            // The reads that lock by themselves end with their wait. A delegation is asked for sooner or later.
            for _ in 0..20 {
                let read = first.read(&Sku).wait(LIMIT).delegate().acquire();
                assert!(timeout(Duration::from_millis(20), read).await.is_err(), "a writer holds the lock");
            }
        });
        aside
    });
    let stalled = stalled.await.unwrap();
    writer.release().await.unwrap();
    let read = locks.read(&Sku).wait(LIMIT).delegate().acquire();
    drop(read.await.expect("waits for an attempt that nobody makes"));
    stalled.shutdown_background();
    locks.shutdown(LIMIT).await;
    world.end().await;
}
