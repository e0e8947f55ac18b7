//! Cache-aside.

mod error;
mod handle;
mod info;
mod invalidator;

pub use error::{BuildError, CacheError, LoadError};
pub use handle::Cache;
pub use info::{CacheInfo, Lookup, Source};
pub use invalidator::Invalidator;
