//! A holder that ends without a word, as by `kill -9`: its runtime is gone, and with it its connections and the renewal
//! of its lock.

use std::{mem::ManuallyDrop, time::Duration};

use futures_util::future::join_all;
use rand::Rng;
use stockade::{Locks, Redis};
use tokio::{
    runtime,
    task::spawn_blocking,
    time::{Instant, sleep},
};

use super::{AttackError, goods::GOODS, ground::Ground, item::Item};

/// What the lock is for.
const ITEM: Item = Item(GOODS + 2);

const LEASE: Duration = Duration::from_secs(1);

const WAITERS: usize = 20;

/// How long each of them waits.
const PATIENCE: Duration = Duration::from_secs(3);

pub(super) async fn run(ground: &Ground) -> Result<(), AttackError> {
    ground.off.unlock().await?;
    let redis = ground.redis.clone();
    let died = spawn_blocking(move || hold_and_die(&redis));
    died.await.map_err(|_| AttackError::Thread)??;
    ground.off.lock().await?;
    ground.begin();
    let [on, off] = ground.meters();
    let with = join_all((0..WAITERS).map(async |_| {
        let since = Instant::now();
        let lock = ground.locks.write(&ITEM).wait(PATIENCE).acquire().await;
        on.count(since, lock.is_ok());
        if let Ok(lock) = lock {
            let _ = lock.release().await;
        }
    }));
    let without = join_all((0..WAITERS).map(async |_| {
        let since = Instant::now();
        let is_held = ask_again(ground, since).await?;
        off.count(since, is_held);
        if is_held { ground.off.unlock().await } else { Ok(()) }
    }));
    let (_, without) = tokio::join!(with, without);
    // Nobody else ever would.
    ground.off.unlock().await?;
    without.into_iter().collect()
}

/// Takes the lock on a runtime of its own, which ends while the lock is held.
fn hold_and_die(redis: &Redis) -> Result<(), AttackError> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build().map_err(AttackError::Runtime)?;
    let held = runtime.block_on(async {
        let locks = Locks::builder().lease(LEASE).redis(redis);
        locks.write(&ITEM).wait(PATIENCE).acquire().await
    });
    // A process that is killed releases nothing.
    let _held = ManuallyDrop::new(held?);
    runtime.shutdown_background();
    Ok(())
}

/// Polls for the lock of the side without defences.
async fn ask_again(ground: &Ground, since: Instant) -> Result<bool, AttackError> {
    while since.elapsed() < PATIENCE {
        if ground.off.lock().await? {
            return Ok(true);
        }
        let pause = rand::rng().random_range(20..60);
        sleep(Duration::from_millis(pause)).await;
    }
    Ok(false)
}
