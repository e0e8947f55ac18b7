use std::{fmt, time::Duration};

use deadpool_redis::{
    Connection,
    cluster::{self, ClusterConnection},
    redis::{
        Cmd, FromRedisValue, Pipeline, RedisError, RedisFuture, RedisResult, Script, ToRedisArgs, Value,
        aio::{ConnectionLike, MultiplexedConnection},
    },
    sentinel,
};
use parking_lot::Mutex;
use stockade::{Redis, redis::Pool};
use tokio::time::timeout;

use super::breaker::Breaker;

/// Why a command has no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LinkError {
    /// It was not sent: the server did not answer lately.
    #[error("the Redis of the locks did not answer lately")]
    Open(Duration),
    /// It was not sent: there is no connection.
    #[error("there is no connection to the Redis of the locks")]
    Down(#[source] Option<Box<dyn std::error::Error + Send + Sync>>),
    /// The server refused it, and did nothing.
    #[error("the Redis of the locks refused a command")]
    Refused(#[source] RedisError),
    /// It was sent, and its answer never came.
    #[error("the Redis of the locks did not answer")]
    Unanswered(#[source] Option<RedisError>),
    /// The answer is not of the form that was expected.
    #[error("the Redis of the locks answered something else")]
    Unreadable(#[source] RedisError),
}

/// A connection that all tasks of the process share, to the server of the locks. Made when it is needed; every wait is
/// limited by the command time-out.
pub(crate) struct Link {
    pool: Option<Pool>,
    limit: Duration,
    breaker: Breaker,
    slot: Mutex<Slot>,
    dialing: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Slot {
    wire: Option<Wire>,
    /// Counts connections, so that a failure of one does not end its successor.
    number: u64,
}

#[derive(Clone)]
enum Wire {
    Server(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl ConnectionLike for Wire {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        match self {
            Self::Server(server) => server.req_packed_command(command),
            Self::Cluster(cluster) => cluster.req_packed_command(command),
        }
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        match self {
            Self::Server(server) => server.req_packed_commands(pipeline, offset, count),
            Self::Cluster(cluster) => cluster.req_packed_commands(pipeline, offset, count),
        }
    }

    fn get_db(&self) -> i64 {
        match self {
            Self::Server(server) => server.get_db(),
            Self::Cluster(cluster) => cluster.get_db(),
        }
    }
}

impl Link {
    pub(crate) fn new(redis: &Redis, limit: Duration) -> Self {
        Self {
            pool: redis.pool().cloned(),
            limit,
            breaker: Breaker::default(),
            slot: Mutex::default(),
            dialing: tokio::sync::Mutex::default(),
        }
    }

    /// Runs a script on these keys.
    pub(crate) async fn run<T: FromRedisValue>(
        &self,
        script: &Script,
        keys: &[&str],
        args: &[impl ToRedisArgs + Sync],
    ) -> Result<T, LinkError> {
        let mut call = script.prepare_invoke();
        call.key(keys).arg(args);
        self.ask(async |wire| call.invoke_async::<Value>(wire).await).await
    }

    /// Sends a command.
    pub(crate) async fn command<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, LinkError> {
        self.ask(async |wire| command.query_async::<Value>(wire).await).await
    }

    async fn ask<T: FromRedisValue>(
        &self,
        send: impl AsyncFnOnce(&mut Wire) -> RedisResult<Value>,
    ) -> Result<T, LinkError> {
        self.breaker.permit().map_err(LinkError::Open)?;
        let (mut wire, number) = match timeout(self.limit, self.wire()).await {
            Ok(Ok(wire)) => wire,
            Ok(Err(error)) => return Err(self.failed(None, error)),
            Err(_) => return Err(self.failed(None, LinkError::Down(None))),
        };
        match timeout(self.limit, send(&mut wire)).await {
            Ok(Ok(value)) => {
                self.breaker.succeeded();
                T::from_redis_value(value).map_err(|error| LinkError::Unreadable(error.into()))
            }
            // A server that answers is one that executed nothing: scripts read everything before they write.
            Ok(Err(error)) if error.code().is_some_and(is_of_the_command) => {
                self.breaker.succeeded();
                Err(LinkError::Refused(error))
            }
            Ok(Err(error)) if error.code().is_some() => Err(self.failed(Some(number), LinkError::Refused(error))),
            Ok(Err(error)) => Err(self.failed(Some(number), LinkError::Unanswered(Some(error)))),
            Err(_) => Err(self.failed(Some(number), LinkError::Unanswered(None))),
        }
    }

    /// The connection, made by one task for all.
    async fn wire(&self) -> Result<(Wire, u64), LinkError> {
        if let Some(wire) = self.current() {
            return Ok(wire);
        }
        let _dialing = self.dialing.lock().await;
        if let Some(wire) = self.current() {
            return Ok(wire);
        }
        // Taken out for good: a connection that is shared is not the pool's to give to somebody else.
        let wire = match &self.pool {
            Some(Pool::Single(pool)) => pool.get().await.map(|own| Wire::Server(Connection::take(own))),
            Some(Pool::Sentinel(pool)) => pool.get().await.map(|own| Wire::Server(sentinel::Connection::take(own))),
            Some(Pool::Cluster(pool)) => pool.get().await.map(|own| Wire::Cluster(cluster::Connection::take(own))),
            _ => return Err(LinkError::Down(None)),
        };
        let wire = wire.map_err(|error| LinkError::Down(Some(error.into())))?;
        let mut slot = self.slot.lock();
        slot.number += 1;
        slot.wire = Some(wire.clone());
        Ok((wire, slot.number))
    }

    fn current(&self) -> Option<(Wire, u64)> {
        let slot = self.slot.lock();
        Some((slot.wire.clone()?, slot.number))
    }

    /// Counts a failure, after which the next command is sent on a connection of its own: to another primary, perhaps.
    fn failed(&self, number: Option<u64>, error: LinkError) -> LinkError {
        self.breaker.failed();
        let mut slot = self.slot.lock();
        if number == Some(slot.number) {
            slot.wire = None;
        }
        error
    }
}

/// Whether an error concerns this command only: no permission, no consumer group or one already, a value that another
/// program put there, no memory for what the command adds. A server without memory still takes the commands that carry
/// entries to Postgres. With other codes (LOADING, READONLY, NOREPLICAS) the server says that it accepts nothing now.
fn is_of_the_command(code: &str) -> bool {
    ["NOPERM", "NOGROUP", "BUSYGROUP", "WRONGTYPE", "OOM", "ERR"].contains(&code)
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("pool", &self.pool).field("limit", &self.limit).finish_non_exhaustive()
    }
}
