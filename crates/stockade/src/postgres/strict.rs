use std::sync::Arc;

use futures_util::future::BoxFuture;
use sqlx::PgPool;

use super::{presence, sqlstate::sqlstate};
use crate::{
    Resource,
    cache::{CacheBuilder, Fates, LoadError, Relayed},
};

/// The error for a transaction id from the future: the server was replaced by one that never saw the transaction.
const INVALID_PARAMETER_VALUE: &str = "22023";

impl<K: Resource, V> CacheBuilder<K, V> {
    /// Makes reads linearizable with the writes that go through [`Tx::invalidate`](super::Tx::invalidate): a read that
    /// begins after a commit was acknowledged never returns an older value, in any process.
    ///
    /// [`Tx::commit`](super::Tx::commit) then announces the write to Redis before COMMIT, which takes one more round
    /// trip. If Redis does not confirm, the commit fails with [`CommitError::Announce`](super::CommitError::Announce),
    /// and nothing was applied. Until the transaction ends, reads of its keys go to the loader. `pool` must lead to the
    /// primary that those transactions run on: the cache asks it about intents whose transaction did not end them. A
    /// strict cache serves nothing from memory and nothing expired; without Redis every read is a limited load.
    ///
    /// A [`Relay`](super::Relay) for this cache must run in some process. It vouches for each new run of Redis, the
    /// first run included. Until it does, every read is a load,
    /// [`CacheStats::vouched_for`](crate::cache::CacheStats::vouched_for) is false and the gauge
    /// `stockade_cache_vouched_for` is 0. A warning says when no relay runs anywhere.
    ///
    /// # After a restart or a failover
    ///
    /// The promise holds on one Redis that keeps its acknowledged writes. If a restart or a failover loses some of
    /// them, no value is believed until the relay has applied the invalidations of the last ten minutes again. No value
    /// lives longer than those are kept: a [`CacheBuilder::ttl`] or [`CacheBuilder::null_ttl`] of more than 10 minutes
    /// is refused, and a longer [`Loaded::ttl`](crate::cache::Loaded::ttl) is cut to 10 minutes.
    ///
    /// With replicas, every server must be Redis 7.0 or later and must have `min-replicas-to-write` at half the number
    /// of replicas or more, and `min-replicas-max-lag` at 10 or less. An old primary that is cut off then refuses
    /// writes, and processes check for this twice a second. A hit on such a primary may miss writes that were
    /// acknowledged within the last `min-replicas-max-lag` plus four seconds. After a failover reads are loads for 13
    /// more seconds. A primary without these settings is refused behind sentinels. At a fixed address it is believed,
    /// with one warning if it has replicas: stop it before you promote one of them.
    pub fn strict(self, pool: &PgPool) -> Self {
        self.announced(fates(pool.clone()), relayed(pool.clone()))
    }
}

fn relayed(pool: PgPool) -> Relayed {
    Arc::new(move |cache| {
        let pool = pool.clone();
        Box::pin(async move {
            let absent = presence::absent(&pool, &[cache]).await.map_err(LoadError::new)?;
            Ok(absent.is_empty())
        }) as BoxFuture<'static, _>
    })
}

fn fates(pool: PgPool) -> Fates {
    Arc::new(move |xids| {
        let pool = pool.clone();
        Box::pin(async move {
            let mut over = Vec::with_capacity(xids.len());
            for xid in &xids {
                over.push(is_over(&pool, xid).await.map_err(LoadError::new)?);
            }
            Ok(over)
        }) as BoxFuture<'static, _>
    })
}

/// Whether a transaction committed, rolled back, or is so old that the server has forgotten it. A primary that never
/// had it lost it. A standby may not have heard of it yet.
async fn is_over(pool: &PgPool, xid: &str) -> Result<bool, sqlx::Error> {
    const SQL: &str = "select pg_xact_status($1::text::xid8) is distinct from 'in progress'";
    let mut connection = pool.acquire().await?;
    match sqlx::query_scalar(SQL).bind(xid).fetch_one(&mut *connection).await {
        Err(error) if sqlstate(&error) == Some(INVALID_PARAMETER_VALUE) => {
            sqlx::query_scalar("select not pg_is_in_recovery()").fetch_one(&mut *connection).await
        }
        answer => answer,
    }
}

#[cfg(test)]
mod tests {
    use stockade_testbed::PostgresServer;

    use super::*;

    #[tokio::test]
    async fn a_transaction_that_a_standby_has_not_heard_of_is_not_over() {
        let server = PostgresServer::start().await.unwrap();
        let over = async || is_over(&PgPool::connect(&server.url()).await.unwrap(), "4000000000").await.unwrap();
        assert!(over().await, "a primary that does not know it has lost it");
        server.restart_as_standby().await.unwrap();
        assert!(!over().await);
    }
}
