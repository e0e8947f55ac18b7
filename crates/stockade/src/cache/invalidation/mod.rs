//! What a write does to a cache.

mod apply;
mod invalidator;

#[cfg(test)]
pub(crate) use invalidator::Invalidate;
pub use invalidator::Invalidator;
pub(crate) use invalidator::{NotTaken, Outcomes};
