use std::sync::Arc;

use futures_util::future::BoxFuture;
use sqlx::PgConnection;

use crate::cache::{LoadError, Loaded};

/// A loader that reads on a given connection, for
/// [`CacheBuilder::loader_in`](crate::cache::CacheBuilder::loader_in).
///
/// Functions and async closures implement it if they take a connection and a key and return `Result<Option<V>, _>` or
/// `Result<Loaded<V>, _>`. An async closure must capture nothing.
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
        Box::pin(async { loading.await.map(Into::into).map_err(LoadError::new) })
    }
}

/// The loader of [`CacheBuilder::loader_in`](crate::cache::CacheBuilder::loader_in) without its own type.
pub(crate) type LoadInFn<K, V> = Arc<dyn for<'c> LoadIn<'c, K, V>>;
