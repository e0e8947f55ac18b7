//! The operators' port: metrics, health and the admin routes.

mod auth;
mod cache;
mod conservation;
mod locks;
mod router;

pub use router::{Ops, app};
