//! Locks that are shared with clients of an old system.

use std::time::Duration;

use tokio::{task::JoinSet, time::sleep};

use super::support::{KEY, LIMIT, World, is_over, lock, past};
use crate::{legacy::Unit, lock::Released};

/// One client of the old system: takes the lock by raw commands, counts, and deletes the key.
async fn old_system(url: String, rounds: u64) {
    let client = redis::Client::open(url).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    for _ in 0..rounds {
        loop {
            let time = Unit::Seconds.now() + 61;
            let set: u32 = redis::cmd("SETNX").arg(KEY).arg(time).query_async(&mut connection).await.unwrap();
            if set == 1 {
                break;
            }
            let seen: Option<String> = redis::cmd("GET").arg(KEY).query_async(&mut connection).await.unwrap();
            if seen.is_some_and(|seen| is_over(&seen)) {
                let before: Option<String> =
                    redis::cmd("GETSET").arg(KEY).arg(time).query_async(&mut connection).await.unwrap();
                if before.is_none_or(|before| is_over(&before)) {
                    break;
                }
            }
            sleep(Duration::from_millis(5)).await;
        }
        count(&mut connection).await;
        redis::cmd("DEL").arg(KEY).exec_async(&mut connection).await.unwrap();
    }
}

/// Reads and writes in two steps, so that an update in between is lost.
async fn count(connection: &mut redis::aio::MultiplexedConnection) {
    let seen: Option<u64> = redis::cmd("GET").arg("counter").query_async(connection).await.unwrap();
    redis::cmd("SET").arg("counter").arg(seen.unwrap_or_default() + 1).exec_async(connection).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_of_both_kinds_count_right_together() {
    const CLIENTS: u64 = 4;
    const ROUNDS: u64 = 12;
    let world = World::start().await;
    world.command(&["SET", KEY, &past()]).await;
    let mut tasks = JoinSet::new();
    for _ in 0..CLIENTS {
        tasks.spawn(old_system(world.server.url(), ROUNDS));
        let (locks, url) = (world.locks().await, world.server.url());
        tasks.spawn(async move {
            let client = redis::Client::open(url).unwrap();
            let mut connection = client.get_multiplexed_async_connection().await.unwrap();
            for _ in 0..ROUNDS {
                let guard = lock(&locks).wait(LIMIT * 3).acquire().await.unwrap();
                count(&mut connection).await;
                assert_eq!(guard.release().await.unwrap(), Released::Released);
            }
        });
    }
    tasks.join_all().await;
    assert_eq!(world.command(&["GET", "counter"]).await, (2 * CLIENTS * ROUNDS).to_string());
    world.until_free().await;
}
