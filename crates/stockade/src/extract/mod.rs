//! Extractors.

mod fence;
mod fences;

pub use fence::FENCING_TOKEN;
pub use fences::Fences;

#[doc(no_inline)]
pub use crate::{lock::Fence, route_lock::Degraded};
