use std::{borrow::Cow, time::Duration};

use redis::aio::MultiplexedConnection;
use rslock::LockManager;
use stockade::{Locks, Redis, Resource};
use stockade_testbed::RedisServer;

use crate::contender::{Contender, Failure};

const MINIMAL_ACQUIRE: &str = include_str!("scripts/minimal_acquire.lua");
const MINIMAL_RELEASE: &str = include_str!("scripts/minimal_release.lua");
const COMPARE_AND_DELETE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

pub(crate) struct Order(pub(crate) String);

impl Resource for Order {
    const KIND: &'static str = "order";

    fn id(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.0)
    }
}

/// Two round trips, the lock that offers nothing but exclusion, the least that a fair and fenced one needs, a
/// library's, and Stockade's; each task has a resource of its own.
pub(crate) async fn free(server: &RedisServer) -> Result<Vec<Contender>, Failure> {
    let connection = redis::Client::open(server.url())?.get_multiplexed_async_connection().await?;
    let sha = load(&connection, COMPARE_AND_DELETE).await?;
    let minimal = [load(&connection, MINIMAL_ACQUIRE).await?, load(&connection, MINIMAL_RELEASE).await?];
    let locks = Locks::new(&Redis::connect(server.url()).await?);
    let (pings, bare, reads, shared) = (connection.clone(), connection.clone(), locks.clone(), locks.clone());
    let peer = LockManager::new(vec![server.url()]);
    Ok(vec![
        Contender::new("2 × PING", move |_| ping_twice(pings.clone())),
        Contender::new("SET NX PX, compare-and-delete by EVALSHA", move |task| {
            set_and_delete(bare.clone(), sha.clone(), task)
        }),
        Contender::new("the least that is fair and fenced", move |task| {
            least(connection.clone(), minimal.clone(), task)
        }),
        Contender::new("rslock, one server", move |task| peer_lock(peer.clone(), format!("peer:{task}"))),
        Contender::new("stockade, fair, fenced, renewed", move |task| lock(locks.clone(), task)),
        Contender::new("stockade, shared", move |task| read_lock(reads.clone(), task)),
        Contender::new("stockade, shared, delegated", move |task| delegated_lock(shared.clone(), task)),
    ])
}

async fn load(connection: &MultiplexedConnection, script: &str) -> Result<String, Failure> {
    Ok(redis::cmd("SCRIPT").arg("LOAD").arg(script).query_async(&mut connection.clone()).await?)
}

async fn ping_twice(connection: MultiplexedConnection) -> Result<(), Failure> {
    ping(connection.clone()).await?;
    ping(connection).await
}

pub(crate) async fn ping(mut connection: MultiplexedConnection) -> Result<(), Failure> {
    Ok(redis::cmd("PING").exec_async(&mut connection).await?)
}

async fn set_and_delete(mut connection: MultiplexedConnection, sha: String, task: u32) -> Result<(), Failure> {
    let key = format!("bare:{task}");
    redis::cmd("SET").arg(&key).arg("owner").arg("NX").arg("PX").arg(10_000).exec_async(&mut connection).await?;
    let deleted: u32 =
        redis::cmd("EVALSHA").arg(sha).arg(1).arg(&key).arg("owner").query_async(&mut connection).await?;
    if deleted == 1 { Ok(()) } else { Err("the bare lock was not held".into()) }
}

async fn least(mut connection: MultiplexedConnection, scripts: [String; 2], task: u32) -> Result<(), Failure> {
    let [acquire, release] = &scripts;
    let (key, owner) = (format!("least:{task}"), "0123456789abcdef.00000000001");
    let mut acquire = redis::cmd("EVALSHA").arg(acquire).arg(2).arg(&key).arg("least:floor").take();
    let token: String = acquire.arg(10_000).arg(owner).query_async(&mut connection).await?;
    let released: u32 =
        redis::cmd("EVALSHA").arg(release).arg(1).arg(&key).arg(owner).query_async(&mut connection).await?;
    if released == 1 && token != "BUSY" { Ok(()) } else { Err("the least lock was not held".into()) }
}

async fn read_lock(locks: Locks, task: u32) -> Result<(), Failure> {
    let guard = locks.read(&Order(format!("read {task}"))).wait(Duration::from_secs(10)).acquire().await?;
    guard.release().await?;
    Ok(())
}

async fn delegated_lock(locks: Locks, task: u32) -> Result<(), Failure> {
    let request = locks.read(&Order(format!("delegated {task}"))).wait(Duration::from_secs(10));
    request.delegate().acquire().await?.release().await?;
    Ok(())
}

pub(crate) async fn lock(locks: Locks, task: u32) -> Result<(), Failure> {
    let guard = locks.write(&Order(task.to_string())).wait(Duration::from_secs(10)).acquire().await?;
    guard.release().await?;
    Ok(())
}

pub(crate) async fn peer_lock(locks: LockManager, resource: String) -> Result<(), Failure> {
    let lock = locks.lock(resource.as_bytes(), Duration::from_secs(10)).await?;
    locks.unlock(&lock).await;
    Ok(())
}
