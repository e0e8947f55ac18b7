use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::{Serialize, de::DeserializeOwned};
use sqlx::{PgConnection, PgPool};
use tokio::time::timeout;

use super::loader::{LoadFn, share};
use crate::{
    cache::{Cache, CacheBuilder, CacheError, LoadError, Loaded, stats::TxRead},
    resource::{Key, Resource},
};

/// How a value is loaded on a given connection: what [`CacheBuilder::loader_in`] takes.
///
/// Implemented for functions and async closures from a connection and a key to `Result<Option<V>, _>` or
/// `Result<Loaded<V>, _>`; an async closure may capture nothing.
pub trait LoadIn<'c, K, V>: Send + Sync + 'static {
    #[doc(hidden)]
    fn load_in(&self, connection: &'c mut PgConnection, key: K) -> BoxFuture<'c, Result<Loaded<V>, LoadError>>;
}

impl<'c, K, V, F, Fut, L, E> LoadIn<'c, K, V> for F
where
    F: Fn(&'c mut PgConnection, K) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<L, E>> + Send + 'c,
    L: Into<Loaded<V>>,
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    fn load_in(&self, connection: &'c mut PgConnection, key: K) -> BoxFuture<'c, Result<Loaded<V>, LoadError>> {
        let loading = self(connection, key);
        Box::pin(async { loading.await.map(Into::into).map_err(share) })
    }
}

/// A loader that is told its connection.
pub(crate) type LoadInFn<K, V> = Arc<dyn for<'c> LoadIn<'c, K, V>>;

impl<K: Resource + Send + 'static, V: 'static> CacheBuilder<K, V> {
    /// How a value is loaded, as [`CacheBuilder::loader`], with its connection given to it: one of `pool` for the cache, or the
    /// transaction of [`Cache::get_in`]. One statement serves both. `pool` must lead to the primary.
    ///
    /// ```no_run
    /// # use std::borrow::Cow;
    /// # use sqlx::{PgConnection, PgPool};
    /// # use stockade::{Cache, Redis, Resource, postgres::Tx};
    /// # #[derive(Clone)]
    /// # struct Sku(String);
    /// # impl Resource for Sku {
    /// #     const KIND: &'static str = "stock";
    /// #     fn id(&self) -> Cow<'_, str> { Cow::Borrowed(&self.0) }
    /// # }
    /// async fn quantity(connection: &mut PgConnection, sku: Sku) -> Result<Option<i32>, sqlx::Error> {
    ///     let select = sqlx::query_scalar("select quantity from stock where sku = $1");
    ///     select.bind(sku.0).fetch_optional(connection).await
    /// }
    ///
    /// # async fn example(redis: Redis, pool: PgPool, mut tx: Tx) -> Result<(), Box<dyn std::error::Error>> {
    /// let stocks = Cache::builder(&redis).loader_in(&pool, quantity).build();
    /// let sku = Sku("85123A".into());
    /// let committed = stocks.get(&sku).await?;
    /// let here = stocks.get_in(&mut tx, &sku).await?; // with what `tx` has written
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Replaces an earlier [`CacheBuilder::loader`].
    pub fn loader_in<F, L, E>(self, pool: &PgPool, load: F) -> Self
    where
        // The first bound lets closures go without types, the second says that what they return can be sent.
        F: for<'c> AsyncFn(&'c mut PgConnection, K) -> Result<L, E> + for<'c> LoadIn<'c, K, V>,
    {
        let load: LoadInFn<K, V> = Arc::new(load);
        let (pool, outside) = (pool.clone(), Arc::clone(&load));
        let loader: LoadFn<K, V> = Box::new(move |key| {
            let (pool, load) = (pool.clone(), Arc::clone(&outside));
            Box::pin(async move {
                let mut connection = pool.acquire().await.map_err(share)?;
                load.load_in(&mut connection, key).await
            })
        });
        self.loaded_by(loader, load)
    }
}

impl<K, V> Cache<K, V>
where
    K: Resource + Clone + Send + Sync + 'static,
    V: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    /// The value as a transaction sees it, its own writes included: read by [`CacheBuilder::loader_in`] on its connection.
    ///
    /// The cache has no part in it. It gives no value and is given none, no other read waits for this one, and neither the
    /// limits of loads nor a shutdown hold it up: the connection is taken already. `connection` is a `&mut Tx` or any other
    /// transaction's. It is counted apart from other reads ([`CacheStats::reads_in_tx`](super::CacheStats::reads_in_tx)).
    ///
    /// Dropping the future leaves the transaction usable; its next statement waits for the end of this one. A panic of the
    /// loader goes through to the caller.
    ///
    /// # Errors
    ///
    /// [`CacheError::Key`]; [`CacheError::NotInTransaction`] without `loader_in`; [`CacheError::Load`], after which Postgres
    /// takes no more statements of this transaction; [`CacheError::Timeout`] after [`CacheBuilder::load_timeout`].
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
