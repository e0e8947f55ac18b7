//! Integration tests: one binary, one module per topic.

#[cfg(test)]
mod access;
#[cfg(test)]
mod admin_cache;
#[cfg(test)]
mod attacks;
#[cfg(test)]
mod bad_input;
#[cfg(test)]
mod breakers;
#[cfg(test)]
mod cache_mode;
#[cfg(test)]
mod connections;
#[cfg(test)]
mod conservation;
#[cfg(test)]
mod console;
#[cfg(test)]
mod console_cache;
#[cfg(test)]
mod console_events;
#[cfg(test)]
mod console_fleet;
#[cfg(test)]
mod console_stock;
#[cfg(test)]
mod dashboards;
#[cfg(test)]
#[cfg(feature = "demo")]
mod demo;
#[cfg(test)]
mod flash;
#[cfg(test)]
mod health;
#[cfg(test)]
mod idempotency;
#[cfg(test)]
mod idle_connections;
#[cfg(test)]
mod kill;
#[cfg(test)]
#[cfg(feature = "demo")]
mod lab;
#[cfg(test)]
mod lab_routes;
#[cfg(test)]
mod logs;
#[cfg(test)]
mod openapi;
#[cfg(test)]
mod ops;
#[cfg(test)]
mod redis_faults;
#[cfg(test)]
#[cfg(feature = "redlock")]
mod redlock;
#[cfg(test)]
mod refusals;
#[cfg(test)]
mod replay;
#[cfg(test)]
mod resume;
#[cfg(test)]
mod routes;
#[cfg(test)]
mod seed;
#[cfg(test)]
mod shutdown;
#[cfg(test)]
mod single_select;
#[cfg(test)]
mod sku_filter;
#[cfg(test)]
mod stage;
#[cfg(test)]
mod start;
#[cfg(test)]
mod statements;
#[cfg(test)]
mod stock_db;
#[cfg(test)]
mod support;
#[cfg(test)]
#[cfg(feature = "otlp")]
mod traces;
#[cfg(test)]
mod transfers;
#[cfg(test)]
mod warm_up;
#[cfg(test)]
mod wire;
