//! Locks that other Redlock programs share.

use std::sync::Arc;

use super::{Settings, World, key, once, write};
use crate::store::{LockError, LockStore, Released, redlock::KeyFormat};

/// The script with which redis-py, node-redlock, pottery, redsync and others release a lock.
const COMPARE_AND_DELETE: &str =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";

fn literal() -> Settings {
    let format = |key: &crate::resource::Key| format!("redlock:{}", key.as_str().trim_start_matches("test:"));
    Settings { key_format: Some(KeyFormat(Arc::new(format))), ..Settings::default() }
}

#[tokio::test]
async fn programs_that_speak_the_plain_wire_and_we_exclude_each_other() {
    let world = World::start(3).await;
    let store = world.store_with(literal()).await;
    let key = key("report");
    for server in [0, 1] {
        assert_eq!(world.command(server, &["SET", "redlock:report", "theirs", "NX", "PX", "10000"]).await, "OK");
    }
    let busy = store.acquire(once(&key)).await;
    assert!(matches!(busy, Err(LockError::Busy { .. })), "{busy:?}");
    world.until_free(2).await;
    for server in [0, 1] {
        assert_eq!(world.command(server, &["EVAL", COMPARE_AND_DELETE, "1", "redlock:report", "theirs"]).await, "1");
    }

    let held = store.acquire(write(&key)).await.unwrap();
    world.until_held_everywhere().await;
    for server in 0..3 {
        assert_eq!(world.keys(server).await, ["redlock:report"]);
        // As `SET NX PX` leaves it: a string with a time to live.
        assert_eq!(world.command(server, &["TYPE", "redlock:report"]).await, "string");
        let left: i64 = world.command(server, &["PTTL", "redlock:report"]).await.parse().unwrap();
        assert!(left > 30_000 && left <= 60_000, "{left}");
        assert_eq!(world.command(server, &["SET", "redlock:report", "theirs", "NX", "PX", "10000"]).await, "");
        assert_eq!(world.command(server, &["EVAL", COMPARE_AND_DELETE, "1", "redlock:report", "theirs"]).await, "0");
    }
    assert_eq!(store.release(&held).await.unwrap(), Released::Released);
    world.until_all_are_free().await;
    assert!(matches!(store.list(10).await, Err(LockError::Unsupported { .. })));
    world.end().await;
}

#[tokio::test]
async fn a_lock_without_end_is_waited_for_and_left_alone() {
    let world = World::start(3).await;
    let store = world.store_with(literal()).await;
    for server in 0..3 {
        world.command(server, &["SET", "redlock:endless", "theirs"]).await;
    }
    let busy = store.acquire(once(&key("endless"))).await;
    assert!(matches!(busy, Err(LockError::Busy { .. })), "{busy:?}");
    for server in 0..3 {
        assert_eq!(world.command(server, &["GETDEL", "redlock:endless"]).await, "theirs");
    }
    world.end().await;
}
