use axum::{extract::FromRequestParts, http::request::Parts};

use super::{CachePolicy, EtagKey};
use crate::{Cache, Resource};

/// A value that handlers take from a cache of the application's state.
///
/// ```
/// # use std::borrow::Cow;
/// # use stockade::{Cache, Resource, extract::FromCache};
/// # #[derive(Clone)]
/// # struct Sku(String);
/// # impl Resource for Sku {
/// #     const KIND: &'static str = "stock";
/// #     fn id(&self) -> Cow<'_, str> { Cow::Borrowed(&self.0) }
/// # }
/// # use axum::{extract::FromRequestParts, http::request::Parts};
/// # impl<S: Sync> FromRequestParts<S> for Sku {
/// #     type Rejection = std::convert::Infallible;
/// #     async fn from_request_parts(_: &mut Parts, _: &S) -> Result<Self, Self::Rejection> { Ok(Sku("a".into())) }
/// # }
/// struct Stock { quantity: u64, version: u64 }
///
/// struct App { stocks: Cache<Sku, Stock> }
///
/// impl FromCache<App> for Stock {
///     type Key = Sku;
///
///     fn cache(app: &App) -> &Cache<Sku, Stock> {
///         &app.stocks
///     }
///
///     fn version(&self) -> Option<u64> {
///         Some(self.version)
///     }
/// }
/// ```
///
/// A handler can take [`Cached<T>`](super::Cached) only of types that say so, and the compiler names what is missing.
/// It does so for handlers under `#[axum::debug_handler]`; without that, Axum only says that the function is no
/// handler.
///
/// ```compile_fail,E0277
/// # #[derive(serde::Serialize, serde::Deserialize)]
/// # struct Stock { quantity: u64 }
/// # #[derive(Clone)]
/// # struct App;
/// #[axum::debug_handler(state = App)]
/// async fn show(stock: stockade::extract::Cached<Stock>) -> stockade::extract::Cached<Stock> {
///     stock // no `impl FromCache<App> for Stock`
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be taken from a cache of the state `{S}`",
    label = "there is no `impl FromCache<{S}> for {Self}`",
    note = "implement `FromCache<{S}>` for `{Self}`: its `Key` names the value in the request, its `cache()` finds the cache in the state",
    note = "if it is implemented for another state, give that one to `Router::with_state`"
)]
pub trait FromCache<S>: Sized {
    /// The extractor that names the value in the request; it is the resource too.
    type Key: Resource + FromRequestParts<S>;

    /// The cache to take it from.
    fn cache(state: &S) -> &Cache<Self::Key, Self>;

    /// What changes whenever the value does and never repeats for its key, also after the row is deleted and created
    /// again: the first part of the [`EntityTag`](super::EntityTag). Without one there is no `ETag` and no 304.
    ///
    /// The JSON of a value must follow from its key and its version. When a new release writes the same version in
    /// another way, because a field was added for instance, raise
    /// [`CacheBuilder::schema`](crate::cache::CacheBuilder::schema).
    fn version(&self) -> Option<u64> {
        None
    }

    /// The key of the hash in entity tags, the same in every instance. Default: a constant, which hides nothing; see
    /// [`EtagKey`].
    fn etag_key(state: &S) -> EtagKey {
        let _ = state;
        EtagKey::default()
    }

    /// How HTTP caches may keep the answer to this request. Default: [`CachePolicy::private`], which is safe for values
    /// of one user. For values that everybody may see, [`CachePolicy::shared`] lets proxies help.
    fn cache_policy(parts: &Parts, state: &S) -> CachePolicy {
        let _ = (parts, state);
        CachePolicy::default()
    }

    /// Whether this request may have the value loaded again by `Cache-Control: no-cache`. Default: no request may, and
    /// all are answered as if they had not asked.
    ///
    /// The load runs as [`Cache::reload`] says: under a lease, within the limits of loads, shared with whoever asks for
    /// one at the same time. It still is one query for each request that comes alone, so let only those ask whom you
    /// know: an operator's token, a header that the proxy sets. What a middleware found out is in `parts.extensions`.
    ///
    /// `max-age=0`, which browsers send with every plain reload, and `Pragma` ask for nothing; directives of requests
    /// are advice (RFC 9111, section 5.2.1).
    ///
    /// ```
    /// # use axum::http::request::Parts;
    /// # #[derive(Clone)]
    /// struct Operator; // put into the extensions by the middleware that checks tokens
    ///
    /// fn honours_no_cache(parts: &Parts) -> bool {
    ///     parts.extensions.get::<Operator>().is_some()
    /// }
    /// ```
    fn honours_no_cache(parts: &Parts, state: &S) -> bool {
        let _ = (parts, state);
        false
    }
}
