//! Integration tests: one binary, one module per topic.

#[cfg(test)]
mod readme;
#[cfg(test)]
mod route_lock;
