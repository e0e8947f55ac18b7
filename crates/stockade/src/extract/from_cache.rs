use axum::{extract::FromRequestParts, http::request::Parts};

use super::CachePolicy;
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
/// Routes that fit any state, as those of a library, take it from every state that has the cache:
///
/// ```
/// # use std::{borrow::Cow, convert::Infallible};
/// # use axum::{Router, extract::FromRequestParts, http::request::Parts, routing::get};
/// # use stockade::{Cache, Resource, extract::{Cached, FromCache}};
/// # #[derive(Clone)]
/// # struct Sku(String);
/// # impl Resource for Sku {
/// #     const KIND: &'static str = "stock";
/// #     fn id(&self) -> Cow<'_, str> { Cow::Borrowed(&self.0) }
/// # }
/// # impl<S: Sync> FromRequestParts<S> for Sku {
/// #     type Rejection = Infallible;
/// #     async fn from_request_parts(_: &mut Parts, _: &S) -> Result<Self, Infallible> { Ok(Sku("a".into())) }
/// # }
/// # #[derive(serde::Serialize, serde::Deserialize)]
/// # struct Stock { quantity: u64 }
/// impl<S: AsRef<Cache<Sku, Stock>> + Send + Sync> FromCache<S> for Stock {
///     type Key = Sku;
///
///     fn cache(state: &S) -> &Cache<Sku, Stock> {
///         state.as_ref()
///     }
/// }
///
/// fn routes<S: AsRef<Cache<Sku, Stock>> + Clone + Send + Sync + 'static>() -> Router<S> {
///     Router::new().route("/stock/{sku}", get(async |stock: Cached<Stock>| stock))
/// }
/// ```
///
/// A handler can take [`Cached<T>`](super::Cached) only for types that implement this trait. Under
/// `#[axum::debug_handler]` the compiler names a missing implementation; without it, Axum only says that the function
/// is no handler.
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
    /// The extractor that finds the key in the request. It is also the resource.
    type Key: Resource + FromRequestParts<S>;

    /// The cache of the application's state that has the value.
    fn cache(state: &S) -> &Cache<Self::Key, Self>;

    /// A number that changes whenever the value does, and never repeats for its key, not even after the row was deleted
    /// and created again. It is the first part of the [`EntityTag`](super::EntityTag). Default: the version that the
    /// loader gave, [`Loaded::version`](crate::cache::Loaded::version). Without either there is no `ETag` and no 304.
    ///
    /// Key and version must determine the JSON of a value. If a new release writes the same version differently, for
    /// instance with one more field, raise [`CacheBuilder::schema`](crate::cache::CacheBuilder::schema).
    fn version(&self) -> Option<u64> {
        None
    }

    /// How HTTP caches may keep the answer to this request. Default: [`CachePolicy::private`], which is safe for values
    /// of one user. For values that everybody may see, [`CachePolicy::shared`] lets proxies help.
    fn cache_policy(parts: &Parts, state: &S) -> CachePolicy {
        let _ = (parts, state);
        CachePolicy::default()
    }
}
