//! What a write does to a cache.

mod apply;
mod invalidator;
mod settle;

#[cfg(test)]
pub(crate) use invalidator::Invalidate;
pub use invalidator::Invalidator;
