//! A process that is killed while it holds locks.

use std::{env, time::Duration};

use futures_util::future::join_all;
use rand::Rng;
use sqlx::postgres::PgConnectOptions;
use stockade::{Locks, Redis, lock::Guard};
use stockade_testbed::ChildProcess;
use tokio::{
    process::Command,
    time::{Instant, sleep, timeout},
};

use super::{
    AttackError,
    goods::{GOODS, Goods},
    ground::Ground,
    item::Item,
    naive::Naive,
};

/// The line that the process prints once it holds the locks.
pub(crate) const HELD: &str = "both locks are held";

/// The item that the lock protects.
const ITEM: Item = Item(GOODS + 2);

const WAITERS: u64 = 20;

/// How long each waiter waits.
const PATIENCE: Duration = Duration::from_secs(3);

/// How long the process may take to start, and to take the locks.
const STARTED: Duration = Duration::from_secs(10);

/// How long the attack waits for all waiters to be in the queue. Then it kills the holder anyway.
const ALL_WAIT: Duration = Duration::from_millis(500);

/// How long Redis may take to delete a key after the attack.
const CLEANED: Duration = Duration::from_secs(2);

const LOOK: Duration = Duration::from_millis(2);

/// Takes the lock of both sides, in the process that is going to be killed.
pub(crate) async fn take_locks(locks: &Locks, redis: Redis, options: PgConnectOptions) -> Result<Guard, AttackError> {
    let held = locks.write(&ITEM).wait(PATIENCE).acquire().await?;
    Naive::new(redis, Goods::new(options)).lock().await?;
    Ok(held)
}

pub(super) async fn run(ground: &Ground) -> Result<(), AttackError> {
    ground.off.unlock().await?;
    let mut holder = start().await?;
    ground.begin();
    let [on, off] = ground.meters();
    let with = join_all((0..WAITERS).map(async |_| {
        let since = Instant::now();
        let lock = ground.place.locks.write(&ITEM).wait(PATIENCE).acquire().await;
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
    let killed = async {
        let _ = timeout(ALL_WAIT, all_wait(&ground.place.locks)).await;
        holder.kill().await.map_err(AttackError::holder)
    };
    let (_, without, killed) = tokio::join!(with, without, killed);
    killed?;
    without.into_iter().collect()
}

/// Deletes the key of the killed holder, who can't, and which never expires. Without Redis the next run deletes it.
pub(super) async fn clean_up(ground: &Ground) {
    let _ = timeout(CLEANED, ground.off.unlock()).await;
}

/// This program again, with the settings of this process. Dropping the value kills it.
async fn start() -> Result<ChildProcess, AttackError> {
    let program = env::current_exe().map_err(AttackError::holder)?;
    let mut command = Command::new(program);
    command.arg("hold-locks").args(env::args_os().skip(2));
    let mut holder = ChildProcess::start(command).map_err(AttackError::holder)?;
    holder.says(HELD, STARTED).await.map_err(AttackError::holder)?;
    Ok(holder)
}

/// Returns when all `WAITERS` wait for the lock.
async fn all_wait(locks: &Locks) {
    while !locks.inspect(&ITEM).await.is_ok_and(|seen| seen.waiting == WAITERS) {
        sleep(LOOK).await;
    }
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
