//! The operators' port: metrics, health, the console and the admin routes.

mod auth;
mod cache;
mod cache_entry;
mod conservation;
mod console;
mod locks;
mod router;
mod stock;

pub use console::Sampler;
pub use router::{Ops, app};
