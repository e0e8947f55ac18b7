//! Integration tests: one binary, one module per topic.

#![cfg(test)]

mod access;
mod adjustments;
mod admin_cache;
mod admin_locks;
mod attacks;
mod bad_input;
mod breakers;
mod cache_mode;
mod connections;
mod conservation;
mod console;
mod console_cache;
mod console_events;
mod console_fleet;
mod console_stock;
mod dashboards;
#[cfg(feature = "demo")]
mod demo;
mod flash;
mod health;
mod idempotency;
mod idle_connections;
mod kill;
#[cfg(feature = "demo")]
mod lab;
mod lab_routes;
mod logs;
mod lost_connections;
mod migrate;
mod openapi;
mod ops;
mod redis_faults;
#[cfg(feature = "redlock")]
mod redlock;
mod refusals;
mod replay;
mod resume;
mod routes;
mod seed;
mod shutdown;
mod single_select;
mod sku_filter;
mod stage;
mod start;
mod statements;
mod stock_db;
mod support;
#[cfg(feature = "otlp")]
mod traces;
mod transfers;
mod warm_up;
mod wire;
