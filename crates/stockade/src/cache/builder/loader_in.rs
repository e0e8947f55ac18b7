use std::sync::Arc;

use sqlx::{PgConnection, PgPool};

use super::CacheBuilder;
use crate::{
    cache::{
        LoadError,
        load::{LoadFn, LoadIn, LoadInFn},
    },
    resource::Resource,
};

impl<K: Resource + Send + 'static, V: 'static> CacheBuilder<K, V> {
    /// How a value is loaded, as [`CacheBuilder::loader`], with its connection given to it: one of `pool` for the
    /// cache, or the transaction of [`Cache::get_in`](crate::Cache::get_in). One statement serves both. `pool` must
    /// lead to the primary.
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
                let mut connection = pool.acquire().await.map_err(LoadError::new)?;
                load.load_in(&mut connection, key).await
            })
        });
        Self { loader: Some(loader), load_in: Some(load), ..self }
    }
}
