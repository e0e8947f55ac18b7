//! The cache on a real Redis.

mod protocol;
mod support;
