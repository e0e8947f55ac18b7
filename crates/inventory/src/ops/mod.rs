//! The operators' port: metrics, health, the console and the admin routes.

mod attacks;
mod auth;
mod cache;
mod cache_entry;
mod conservation;
mod console;
mod lock_log;
mod locks;
mod router;
mod stock;

pub use console::Sampler;
pub use lock_log::LockLog;
pub use router::{Ops, app};
