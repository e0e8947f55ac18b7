//! A delegation whose process never got the message that a writer waits.

use stockade_testbed::eventually;

use super::support::{Sku, delegated, locks, read};
use crate::world::World;

/// A waiter of a process that is gone. Nobody was told of the waiter, and its inbox has no subscriber.
const WAITER: &str = "AAAAAAAAAAAAAAAA.00000000001";

#[tokio::test]
async fn whoever_waits_untold_is_found_by_a_renewal() {
    let world = World::start().await;
    let locks = locks(&world).await;
    let token = delegated(&locks, "1").await;
    // Another reader has come and gone since, as a state with a waiter is no longer that of an only reader.
    let others = self::locks(&world).await;
    others.read(&Sku("1")).acquire().await.unwrap().release().await.unwrap();
    let keys = world.command(&["KEYS", "*l:stock:1"]).await.unwrap();
    let state = keys.trim().to_owned();
    let [queue, waiters] = ["q", "w"].map(|part| state.replace("}l:", &format!("}}{part}:")));
    let time = world.command(&["TIME"]).await.unwrap();
    let mut time = time.split_whitespace();
    let (seconds, micros): (u64, u64) = (time.next().unwrap().parse().unwrap(), time.next().unwrap().parse().unwrap());
    let now = seconds * 1_000_000 + micros;
    let record = format!("w {} 10000000 0 lost", now + 60_000_000);
    let queued = "redis.call('ZADD', KEYS[2], ARGV[1], ARGV[2]) redis.call('HSET', KEYS[3], ARGV[2], ARGV[3]) \
                  local state = redis.call('GET', KEYS[1]) \
                  redis.call('SET', KEYS[1], (string.gsub(state, '^r 0', 'r 1')), 'KEEPTTL') return 'queued'";
    let number = now.to_string();
    let words = ["EVAL", queued, "3", &state, &queue, &waiters, &number, WAITER, &record];
    world.command(&words).await.unwrap();
    // The delegation is used all the time, so that only the waiter can be a reason to end it.
    eventually("another attempt", async || read(&locks, "1").await.token() != token).await;
    eventually("the waiter is gone", async || locks.inspect(&Sku("1")).await.unwrap().waiting == 0).await;
    world.end().await;
}
