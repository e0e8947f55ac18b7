//! Integration tests: one binary, one module per topic.

#[cfg(test)]
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(test)]
mod route_lock;
