//! The settings of a cache, their check, and the cache made of them.

mod build;
mod check;
#[cfg(feature = "postgres")]
mod loader_in;
mod parts;
mod setters;

pub use parts::CacheBuilder;
