//! Extractors.

mod cached;
mod cached_rejection;
mod conditional;
mod directives;
mod fence;
mod fences;
mod json;
mod status;

pub use cached::{CACHE_STATUS, Cached, FromCache};
pub use cached_rejection::CachedRejection;
pub use conditional::none_match;
pub use fence::FENCING_TOKEN;
pub use fences::Fences;

#[doc(no_inline)]
pub use crate::{lock::Fence, route_lock::Degraded};
