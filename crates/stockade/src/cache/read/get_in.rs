use serde::{Serialize, de::DeserializeOwned};
use sqlx::PgConnection;
use tokio::time::timeout;

use crate::{
    cache::{Cache, CacheError, Loaded, stats::LoadEnd},
    resource::{Key, Resource},
};

impl<K, V> Cache<K, V>
where
    K: Resource + Clone + Send + Sync + 'static,
    V: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    /// The value as a transaction sees it, including the transaction's own writes.
    /// [`CacheBuilder::loader_in`](crate::cache::CacheBuilder::loader_in) reads the value on the transaction's
    /// connection: `connection` is a `&mut Tx` or the connection of any other transaction.
    ///
    /// This read bypasses the cache: it takes no value from the cache, stores none, and no other read waits for it. The
    /// limits of loads and a shutdown do not delay it, since its connection is already taken. These reads are counted
    /// in [`CacheStats::reads_in_tx`](crate::cache::CacheStats::reads_in_tx), not among the other reads.
    ///
    /// Cancel safe: the transaction stays usable, and its next statement waits for the end of the dropped one. A panic
    /// of the loader reaches the caller.
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
            Ok(Ok(Loaded { value: Some(value), .. })) => (LoadEnd::Ok, Ok(Some(value))),
            Ok(Ok(Loaded { value: None, .. })) => (LoadEnd::Absent, Ok(None)),
            Ok(Err(error)) => (LoadEnd::Error, Err(CacheError::Load(error))),
            Err(_) => (LoadEnd::Timeout, Err(CacheError::Timeout(limit))),
        };
        core.counters.read_in_tx(core.settings.name, ended);
        found
    }
}
