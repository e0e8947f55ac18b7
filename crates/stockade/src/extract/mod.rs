//! Extractors.

mod cache_headers;
mod cache_policy;
mod cached;
mod cached_rejection;
mod conditional;
mod directives;
mod entity_tag;
mod etag_key;
mod fence;
mod fences;
mod from_cache;
mod json;
mod no_body;
mod status;

pub use cache_headers::CACHE_STATUS;
pub use cache_policy::CachePolicy;
pub use cached::Cached;
pub use cached_rejection::CachedRejection;
pub use conditional::none_match;
pub use entity_tag::EntityTag;
pub use etag_key::EtagKey;
pub use fence::FENCING_TOKEN;
pub use fences::Fences;
pub use from_cache::FromCache;

#[doc(no_inline)]
pub use crate::{lock::Fence, route_lock::Degraded};
