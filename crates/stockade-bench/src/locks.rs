use std::{borrow::Cow, time::Duration};

use redis::aio::MultiplexedConnection;
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

/// Two round trips, the lock that offers nothing but exclusion, and Stockade's; each task has a resource of its own.
pub(crate) async fn contenders(server: &RedisServer) -> Result<Vec<Contender>, Failure> {
    let connection = redis::Client::open(server.url())?.get_multiplexed_async_connection().await?;
    let sha: String =
        redis::cmd("SCRIPT").arg("LOAD").arg(COMPARE_AND_DELETE).query_async(&mut connection.clone()).await?;
    let locks = Locks::new(&Redis::connect(server.url()).await?);
    let pings = connection.clone();
    Ok(vec![
        Contender::new("2 × PING", move |_| ping_twice(pings.clone())),
        Contender::new("SET NX PX, compare-and-delete by EVALSHA", move |task| {
            set_and_delete(connection.clone(), sha.clone(), task)
        }),
        Contender::new("stockade, fair, fenced, renewed", move |task| lock(locks.clone(), task)),
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
    let guard = locks.write(&Order(task.to_string())).wait(Duration::from_secs(1)).acquire().await?;
    guard.release().await?;
    Ok(())
}
