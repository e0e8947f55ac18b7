//! Integration tests: one binary, one module per topic.

#[cfg(test)]
mod readme;
mod cache;
#[cfg(test)]
mod route_lock;
