//! Extractors.

mod cache_headers;
mod cached;
mod cached_rejection;
mod conditional;
mod directives;
mod fence;
mod fences;
mod from_cache;
mod json;
mod status;

pub use cache_headers::CACHE_STATUS;
pub use cached::Cached;
pub use cached_rejection::CachedRejection;
pub use conditional::none_match;
pub use fence::FENCING_TOKEN;
pub use fences::Fences;
pub use from_cache::FromCache;

#[doc(no_inline)]
pub use crate::{lock::Fence, route_lock::Degraded};
