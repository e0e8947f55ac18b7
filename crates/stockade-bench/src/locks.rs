use std::{borrow::Cow, time::Duration};

use redis::aio::MultiplexedConnection;
use rslock::LockManager;
use stockade::{Locks, Redis, Resource};
use stockade_testbed::RedisServer;

use crate::contender::{Contender, Failure};

const COMPARE_AND_DELETE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

struct Order(String);

impl Resource for Order {
    const KIND: &'static str = "order";

    fn id(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.0)
    }
}

/// Two round trips, the lock that offers nothing but exclusion, a library's, and Stockade's; each task has a resource of
/// its own.
pub(crate) async fn free(server: &RedisServer) -> Result<Vec<Contender>, Failure> {
    let connection = redis::Client::open(server.url())?.get_multiplexed_async_connection().await?;
    let sha: String =
        redis::cmd("SCRIPT").arg("LOAD").arg(COMPARE_AND_DELETE).query_async(&mut connection.clone()).await?;
    let locks = Locks::new(&Redis::connect(server.url()).await?);
    let pings = connection.clone();
    let peer = LockManager::new(vec![server.url()]);
    Ok(vec![
        Contender::new("2 × PING", move |_| ping_twice(pings.clone())),
        Contender::new("SET NX PX, compare-and-delete by EVALSHA", move |task| {
            set_and_delete(connection.clone(), sha.clone(), task)
        }),
        Contender::new("rslock, one server", move |task| peer_lock(peer.clone(), format!("peer:{task}"))),
        Contender::new("stockade, fair, fenced, renewed", move |task| lock(locks.clone(), task)),
    ])
}

/// All tasks want one resource.
pub(crate) async fn contended(server: &RedisServer) -> Result<Vec<Contender>, Failure> {
    let mut peer = LockManager::new(vec![server.url()]);
    // As often as it takes, each at its default distance.
    peer.set_retry(u32::MAX, Duration::from_millis(200));
    let locks = Locks::new(&Redis::connect(server.url()).await?);
    Ok(vec![
        Contender::new("rslock, polls", move |_| peer_lock(peer.clone(), "peer".to_owned())),
        Contender::new("stockade, handed over in order", move |_| lock(locks.clone(), 0)),
    ])
}

async fn ping_twice(mut connection: MultiplexedConnection) -> Result<(), Failure> {
    for _ in 0..2 {
        redis::cmd("PING").exec_async(&mut connection).await?;
    }
    Ok(())
}

async fn set_and_delete(mut connection: MultiplexedConnection, sha: String, task: u32) -> Result<(), Failure> {
    let key = format!("bare:{task}");
    redis::cmd("SET").arg(&key).arg("owner").arg("NX").arg("PX").arg(10_000).exec_async(&mut connection).await?;
    let deleted: u32 =
        redis::cmd("EVALSHA").arg(sha).arg(1).arg(&key).arg("owner").query_async(&mut connection).await?;
    if deleted == 1 { Ok(()) } else { Err("the bare lock was not held".into()) }
}

async fn lock(locks: Locks, task: u32) -> Result<(), Failure> {
    let guard = locks.write(&Order(task.to_string())).wait(Duration::from_secs(10)).acquire().await?;
    guard.release().await?;
    Ok(())
}

async fn peer_lock(locks: LockManager, resource: String) -> Result<(), Failure> {
    let lock = locks.lock(resource.as_bytes(), Duration::from_secs(10)).await?;
    locks.unlock(&lock).await;
    Ok(())
}
