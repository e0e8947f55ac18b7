//! Integration tests: one binary, one module per topic.

#![cfg(test)]

mod access;
mod cache;
mod child;
mod crowds;
#[cfg(feature = "tls")]
mod crypto;
mod delegation;
mod ending;
#[cfg(all(feature = "axum", feature = "postgres"))]
mod examples;
mod locks_on_redis;
mod log;
mod long_ids;
mod looks;
mod lost_connections;
mod lost_processes;
#[cfg(feature = "postgres")]
mod postgres;
mod readme;
mod redis_traffic;
mod resources;
mod route_lock;
mod runtimes;
#[cfg(feature = "postgres")]
mod stalled_holder;
mod types;
mod world;
