use std::time::Duration;

use futures_util::future::try_join_all;
use redis::aio::MultiplexedConnection;
use stockade::{Locks, Redis, cache::Source, lock::Guard};
use tokio::{runtime::Runtime, task::JoinSet, time::sleep};

use crate::{
    Failure, counted,
    paths::{Item, cache},
};

const MANY: u32 = 10_000;
/// Few enough to be read twice each before the first is given back, which comes a third of a lease after its last use.
const DELEGATED: u32 = 500;
/// As many as may wait for one resource by default.
const WAITERS: u32 = 1_000;
const LEASE: Duration = Duration::from_secs(60);
const BATCH: usize = 100;

/// One line for each kind of thing that is kept: its name, the bytes that one keeps of this process' allocator, and the
/// bytes that one adds to MEMORY USAGE of the keys, with tabs between.
pub(crate) fn print(runtime: &Runtime, url: &str) -> Result<(), Failure> {
    // Caches begin to connect when they are built, which needs a runtime.
    let _inside = runtime.enter();
    let redis = runtime.block_on(Redis::connect(url))?;
    let client = redis::Client::open(url)?;
    let mut server = runtime.block_on(client.get_multiplexed_async_connection())?;
    let local = cache(&redis, "kept", 64 << 20);
    let taken = kept(runtime, &mut server, MANY, async || {
        for item in (0..MANY).map(Item::new) {
            while local.get(&item).await?.info.source != Source::Local {
                sleep(Duration::from_millis(1)).await;
            }
        }
        Ok(())
    })?;
    println!("a cached value of 256 bytes, in Redis and in the process\t{}\t{}", taken[0], taken[1]);

    // The price of one more does not include the setup of a first operation.
    let locks = Locks::builder().lease(LEASE).redis(&redis);
    runtime.block_on(async { locks.write(&Item::new(MANY)).acquire().await?.release().await })?;

    let taken = kept(runtime, &mut server, DELEGATED, async || {
        for item in (0..DELEGATED).map(|number| Item::new(MANY + number)) {
            for _ in 0..2 {
                locks.read(&item).delegate().acquire().await?.release().await?;
            }
        }
        Ok(())
    })?;
    println!("a resource that is delegated, with no reader\t{}\t{}", taken[0], taken[1]);

    let mut guards = Vec::new();
    let taken = kept(runtime, &mut server, MANY, async || {
        guards = take(&locks).await?;
        Ok(())
    })?;
    println!("a held lock, with its guard\t{}\t{}", taken[0], taken[1]);

    let mut waiting = JoinSet::new();
    let taken = kept(runtime, &mut server, WAITERS, async || {
        for _ in 0..WAITERS {
            let request = locks.write(&Item::new(0)).wait(LEASE);
            waiting.spawn(async move { request.acquire().await.map(drop) });
        }
        while locks.inspect(&Item::new(0)).await?.waiting < u64::from(WAITERS) {
            sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    })?;
    println!("a waiter for a lock, with its task\t{}\t{}", taken[0], taken[1]);
    Ok(())
}

async fn take(locks: &Locks) -> Result<Vec<Guard>, Failure> {
    let mut guards = Vec::new();
    for some in (0..MANY).collect::<Vec<_>>().chunks(BATCH) {
        guards.extend(try_join_all(some.iter().map(|item| locks.write(&Item::new(*item)).acquire())).await?);
    }
    Ok(guards)
}

/// Bytes here and at the server for each of `count` things that `work` makes and leaves.
fn kept(
    runtime: &Runtime,
    server: &mut MultiplexedConnection,
    count: u32,
    work: impl AsyncFnOnce() -> Result<(), Failure>,
) -> Result<[i64; 2], Failure> {
    let before = runtime.block_on(usage(server))?;
    let here = counted(|| runtime.block_on(work()))?.bytes_current;
    let there = runtime.block_on(usage(server))? - before;
    Ok([here / i64::from(count), there / i64::from(count)])
}

/// The sum of MEMORY USAGE over all keys.
async fn usage(server: &mut MultiplexedConnection) -> Result<i64, Failure> {
    let keys: Vec<Vec<u8>> = redis::cmd("KEYS").arg("*").query_async(server).await?;
    let mut sum = 0;
    for some in keys.chunks(BATCH) {
        let mut asked = redis::pipe();
        for key in some {
            asked.cmd("MEMORY").arg("USAGE").arg(key).arg("SAMPLES").arg(0);
        }
        let sizes: Vec<Option<i64>> = asked.query_async(server).await?;
        // A key may have expired meanwhile.
        sum += sizes.into_iter().flatten().sum::<i64>();
    }
    Ok(sum)
}
