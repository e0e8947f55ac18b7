use std::sync::Arc;

use futures_util::future::BoxFuture;
use sqlx::PgPool;

use super::{error::sqlstate, outbox, presence};
use crate::{
    Resource,
    cache::{CacheBuilder, Fates, LoadError, Relayed},
};

/// A transaction id from the future: the server was replaced by one that never saw the transaction.
const INVALID_PARAMETER_VALUE: &str = "22023";

impl<K: Resource, V> CacheBuilder<K, V> {
    /// Makes reads linearizable with the writes that go through [`Tx::invalidate`](super::Tx::invalidate): a read that
    /// begins after a commit was acknowledged never returns what was there before it, in any process.
    ///
    /// [`Tx::commit`](super::Tx::commit) then announces the write to Redis before COMMIT, one round trip more, and
    /// fails with [`CommitError::Announce`](super::CommitError::Announce), nothing applied, where Redis does not
    /// confirm. Until the transaction is over, reads of what it writes go to the loader. `pool` must lead to the
    /// primary that those transactions run on: it is asked about announcements whose transaction did not end them.
    /// Nothing is served from memory, and nothing expired: without Redis every read is a limited load.
    ///
    /// A [`Relay`](super::Relay) for this cache must run in some process: it vouches for each new run of the Redis, the
    /// first one included. Until then every read is a load,
    /// [`CacheStats::vouched_for`](crate::cache::CacheStats::vouched_for) is false and the gauge
    /// `stockade_cache_vouched_for` 0; a warning says when no relay runs anywhere.
    ///
    /// It holds on one Redis that keeps its acknowledged writes. After a restart or a failover that loses some of them
    /// no value is believed until the relay has made the invalidations of the last ten minutes again. No value is older
    /// than those: a [`CacheBuilder::ttl`] or [`CacheBuilder::null_ttl`] of more than 10 minutes is refused, and a
    /// longer [`Loaded::ttl`](crate::cache::Loaded::ttl) is cut to that. With replicas `min-replicas-to-write` has to
    /// be half their number or more, and `min-replicas-max-lag` 10 or less, on every server, and Redis of version 7.0
    /// or later: an old primary that was cut off then refuses writes, which is asked for twice a second, and a hit
    /// there is older than an acknowledged write by `min-replicas-max-lag` and four seconds at most. After a failover
    /// reads are loads for 13 seconds more. A primary without these settings is refused behind sentinels, or not
    /// believed.
    pub fn strict(self, pool: &PgPool) -> Self {
        self.announced(fates(pool.clone()), relayed(pool.clone()), outbox::KEEP)
    }
}

fn relayed(pool: PgPool) -> Relayed {
    Arc::new(move |cache| {
        let pool = pool.clone();
        Box::pin(async move {
            let absent = presence::absent(&pool, &[cache]).await.map_err(|error| Arc::new(error) as LoadError)?;
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
                over.push(is_over(&pool, xid).await.map_err(|error| Arc::new(error) as LoadError)?);
            }
            Ok(over)
        }) as BoxFuture<'static, _>
    })
}

/// Whether a transaction committed, rolled back, or is so old that the server has forgotten it.
async fn is_over(pool: &PgPool, xid: &str) -> Result<bool, sqlx::Error> {
    const SQL: &str = "select pg_xact_status($1::text::xid8) is distinct from 'in progress'";
    match sqlx::query_scalar(SQL).bind(xid).fetch_one(pool).await {
        Err(error) if sqlstate(&error) == Some(INVALID_PARAMETER_VALUE) => Ok(true),
        answer => answer,
    }
}
