use serde::{Serialize, de::DeserializeOwned};
use sqlx::PgConnection;
use tokio::time::timeout;

use crate::{
    cache::{Cache, CacheError, Loaded, stats::TxRead},
    resource::{Key, Resource},
};

impl<K, V> Cache<K, V>
where
    K: Resource + Clone + Send + Sync + 'static,
    V: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    /// The value as a transaction sees it, its own writes included: read by
    /// [`CacheBuilder::loader_in`](crate::cache::CacheBuilder::loader_in) on its connection.
    ///
    /// The cache has no part in it. It gives no value and is given none, no other read waits for this one, and neither
    /// the limits of loads nor a shutdown hold it up: the connection is taken already. `connection` is a `&mut Tx` or
    /// any other transaction's. It is counted apart from other reads
    /// ([`CacheStats::reads_in_tx`](crate::cache::CacheStats::reads_in_tx)).
    ///
    /// Dropping the future leaves the transaction usable; its next statement waits for the end of this one. A panic of
    /// the loader goes through to the caller.
    ///
    /// # Errors
    ///
    /// [`CacheError::Key`]; [`CacheError::NotInTransaction`] without `loader_in`; [`CacheError::Load`], after which
    /// Postgres takes no more statements of this transaction; [`CacheError::Timeout`] after
    /// [`CacheBuilder::load_timeout`](crate::cache::CacheBuilder::load_timeout).
    pub async fn get_in(&self, connection: &mut PgConnection, key: &K) -> Result<Option<V>, CacheError> {
        let core = &*self.core;
        Key::of(key)?;
        let load = core.load_in.as_ref().ok_or(CacheError::NotInTransaction(core.settings.name))?;
        let limit = core.settings.load_timeout;
        let (ended, found) = match timeout(limit, load.load_in(connection, key.clone())).await {
            Ok(Ok(Loaded { value: Some(value), .. })) => (TxRead::Ok, Ok(Some(value))),
            Ok(Ok(Loaded { value: None, .. })) => (TxRead::Absent, Ok(None)),
            Ok(Err(error)) => (TxRead::Error, Err(CacheError::Load(error))),
            Err(_) => (TxRead::Timeout, Err(CacheError::Timeout(limit))),
        };
        core.counters.read_in_tx(core.settings.name, ended);
        found
    }
}
