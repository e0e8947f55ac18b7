//! Cache-aside.

mod error;
mod handle;
mod info;
mod invalidator;

pub use error::{BuildError, CacheError, LoadError};
pub use handle::Cache;
pub use info::{CacheInfo, Lookup, Source};
#[cfg(test)]
pub(crate) use invalidator::Invalidate;
pub use invalidator::Invalidator;
