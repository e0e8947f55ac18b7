//! Integration tests: one binary, one module per topic.

#[cfg(test)]
mod route_lock;
