//! Distributed locks that are safe to put on a route, and a cache-aside that never keeps a stale value.
//!
#![cfg_attr(all(feature = "axum", feature = "postgres"), doc = include_str!("guide.md"))]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(not(feature = "axum"), allow(dead_code, reason = "what only the route lock needs"))]

mod breaker;
pub mod cache;
mod chain;
mod clock;
#[cfg(feature = "axum")]
pub mod extract;
#[cfg(feature = "legacy-setnx")]
pub mod legacy;
pub mod lock;
pub mod metrics;
#[cfg(feature = "postgres")]
pub mod postgres;
mod process_id;
pub mod redis;
pub mod resource;
#[cfg(feature = "axum")]
pub mod route_lock;
mod spans;
mod store;

pub use cache::Cache;
pub use lock::{Fence, Guard, LockError, Locks};
pub use redis::Redis;
pub use resource::Resource;
