//! Invalidating values after a write, and in a strict cache announcing the write before its COMMIT.

mod apply;
mod invalidator;
mod settle;

#[cfg(test)]
pub(crate) use invalidator::Invalidate;
pub use invalidator::Invalidator;
