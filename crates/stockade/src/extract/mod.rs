//! Extractors for handlers, most of which are also part of an answer.
//!
//! | extractor | gives | as part of the answer |
//! |---|---|---|
//! | [`Fence`] | the fence of the innermost route lock, with its token | the header `Fencing-Token` |
//! | [`MultiFence`](crate::lock::MultiFence) | the fences of a route lock on several resources | one `Fencing-Token` each |
//! | [`Fences`] | the fences of all locks around the handler, outermost first | one `Fencing-Token` each |
//! | [`Cached<T>`](Cached) | a value of a cache of the application's state, see [`FromCache`] | 200 or 304 with `Cache-Status`, `Age`, `ETag` |
//! | [`CacheInfo`](crate::cache::CacheInfo), after `Option<Cached<T>>` | how an absence is known | `Cache-Status`, `Age` |
//!
//! If an extractor rejects the request, the answer is problem+json (RFC 9457). Take `Option<..>` or `Result<.., ..>` of
//! an extractor to decide yourself.

mod cache_headers;
mod cache_policy;
mod cached;
mod cached_rejection;
mod conditional;
mod entity_tag;
mod fence;
mod fences;
mod from_cache;
mod header_text;
mod json;
mod no_body;
mod status;
#[cfg(feature = "postgres")]
mod write_error;

pub use cache_headers::CACHE_STATUS;
pub use cache_policy::CachePolicy;
pub use cached::Cached;
pub use cached_rejection::CachedRejection;
pub use entity_tag::EntityTag;
pub use fence::FENCING_TOKEN;
pub use fences::Fences;
pub use from_cache::FromCache;

#[doc(no_inline)]
pub use crate::{
    lock::Fence,
    route_lock::{Degraded, Unlocked},
};
