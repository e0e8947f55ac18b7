//! Integration tests: one binary, one module per topic.

#[cfg(test)]
mod access;
#[cfg(test)]
mod cache;
#[cfg(test)]
mod child;
#[cfg(test)]
mod crowds;
#[cfg(test)]
#[cfg(feature = "tls")]
mod crypto;
#[cfg(test)]
mod delegation;
#[cfg(test)]
#[cfg(all(feature = "axum", feature = "postgres"))]
mod examples;
#[cfg(test)]
mod locks_on_redis;
#[cfg(test)]
mod log;
#[cfg(test)]
mod long_ids;
#[cfg(test)]
mod looks;
#[cfg(test)]
mod lost_connections;
#[cfg(test)]
mod lost_processes;
#[cfg(test)]
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(test)]
mod readme;
#[cfg(test)]
mod redis_traffic;
#[cfg(test)]
mod route_lock;
#[cfg(test)]
mod runtimes;
#[cfg(test)]
#[cfg(feature = "postgres")]
mod stalled_holder;
#[cfg(test)]
mod world;
