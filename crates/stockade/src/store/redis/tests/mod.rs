//! The store against a real server.

mod change;
mod clock;
mod cluster;
mod crowd;
pub(in crate::store) mod detour;
mod failover;
mod faults;
mod fleet;
mod foreign;
mod fuzz;
mod joined;
mod keys;
mod late;
mod multi;
mod owners;
mod queue;
mod readers;
mod reconnect;
mod releases;
mod renewal;
mod seen;
mod sentinel_suite;
mod suite;
mod unfit;
mod vanished;
mod world;
mod yielding;

use std::{sync::Arc, time::Duration};

use tokio::{task::JoinHandle, time::timeout};
use tokio_util::task::TaskTracker;

use self::world::{World, connected, opened};
use super::{
    RedisStore,
    commands::{calls, replies::Acquired},
    messages::Inbox,
    scripts::ACQUIRE,
    shard::Shard,
};
use crate::{
    redis::{LIMIT, Redis, RoutedEvents, retried, until},
    resource::{Bucket, Key},
    store::{
        Attempt, LockError, LockStore, Mode, Owner, Ownership, Readers, Token,
        conformance::{attempt, key, read, write},
    },
};

/// The one server of a store.
fn server(store: &RedisStore) -> Arc<Shard> {
    store.inner.shards.of(Bucket::FIRST).unwrap()
}

/// Hands a message to the store, as if it came from this server.
fn told(store: &RedisStore, by: &Arc<Shard>, message: &str) {
    Inbox(Arc::downgrade(&store.inner)).message(by, "", message.as_bytes());
}

async fn until_waiting(store: &RedisStore, key: &Key, waiting: u64) {
    let ask = async || match store.inspect(key).await {
        Ok(seen) if seen.waiting == waiting => Ok(()),
        // On a busy machine an inspection may exceed the command timeout.
        other => Err(format!("{other:?}")),
    };
    retried(ask).await;
}

/// The seed of random tests: `STOCKADE_SEED` to repeat a run, otherwise a random one.
fn seed() -> u64 {
    std::env::var("STOCKADE_SEED").ok().map_or_else(rand::random, |seed| seed.parse().unwrap())
}

/// An attempt on a task of its own.
fn waiting(store: &Arc<RedisStore>, attempt: Attempt) -> JoinHandle<Result<Arc<Ownership>, LockError>> {
    let store = Arc::clone(store);
    TaskTracker::new().spawn(async move { store.acquire(attempt).await })
}

async fn granted(waiter: JoinHandle<Result<Arc<Ownership>, LockError>>) -> Arc<Ownership> {
    timeout(LIMIT, waiter).await.expect("the attempt hangs").unwrap().expect("not granted")
}

/// Acquires and releases at once, on a task of its own. Returns the token.
fn section(store: &Arc<RedisStore>, attempt: Attempt) -> JoinHandle<Result<Token, LockError>> {
    let store = Arc::clone(store);
    TaskTracker::new().spawn(async move {
        let held = store.acquire(attempt).await?;
        store.release(&held).await?;
        Ok(held.token)
    })
}

/// Sends one acquire command for an owner, as a waiter would.
async fn asked(store: &RedisStore, attempt: &Attempt, owner: &Owner, seq: u64) -> Acquired {
    let (wait, stale_after) = (Some(attempt.wait), Duration::from_secs(1));
    let asking = calls::Asking { attempt, owner, wait, seq, stamp: 0, stale_after };
    let (keys, shard) = (&store.inner.keys, store.inner.shard(&attempt.key).unwrap());
    let handing = shard.handing(keys, attempt.key.bucket());
    let reply = shard.link.call(&ACQUIRE, keys.of(&attempt.key), asking.args(&handing)).await.unwrap();
    Acquired::read(&reply).unwrap()
}

/// How many keys an acquire and a release of this resource declare.
fn declared(store: &RedisStore, attempt: &Attempt) -> [u64; 2] {
    let owner = Owner::new("some-process-xyz.00000000000".to_owned());
    let (keys, shard) = (&store.inner.keys, store.inner.shard(&attempt.key).unwrap());
    let handing = shard.handing(keys, attempt.key.bucket());
    let stale_after = Duration::from_secs(1);
    let asking = calls::Asking { attempt, owner: &owner, wait: None, seq: 0, stamp: 0, stale_after };
    let release = calls::release("", keys, &attempt.key, &owner, &handing);
    [asking.command("", keys, &handing), release].map(|command| match command.args_iter().nth(2) {
        Some(redis::Arg::Simple(count)) => str::from_utf8(count).unwrap().parse().unwrap(),
        other => panic!("{other:?}"),
    })
}

/// Waits until all were granted, in their order and with tokens above `last`.
async fn all_served(sections: Vec<JoinHandle<Result<Token, LockError>>>, mut last: Token) {
    let all = sections.len();
    for (number, section) in sections.into_iter().enumerate() {
        let served = timeout(LIMIT, section).await.unwrap_or_else(|_| panic!("{number} of {all} served"));
        let token = served.unwrap().unwrap_or_else(|error| panic!("{number} of {all} served: {error}"));
        assert!(token > last, "{number} of {all}: {token} after {last}");
        last = token;
    }
}

/// A Redis with a command timeout for a busy machine. With the default, waiters would give commands up and ask again.
pub(in crate::store) async fn patient(url: &str) -> Redis {
    Redis::builder(url).command_timeout(LIMIT).connect().await.unwrap()
}

/// An attempt for readers of one process that are told when others want the resource.
fn yielding(attempt: Attempt) -> (Attempt, Arc<Readers>) {
    let readers = Arc::<Readers>::default();
    (Attempt { yields: Some(Arc::clone(&readers)), ..attempt }, readers)
}

/// Another resource of the same bucket.
fn neighbour(of: &Key) -> Key {
    (0..).map(|n| key(&format!("neighbour{n}"))).find(|key| key.bucket() == of.bucket()).unwrap()
}

/// The only permit of a semaphore.
fn permit(key: &Key) -> Attempt {
    Attempt { permits: 1, ..attempt(key, Mode::Permit) }
}
