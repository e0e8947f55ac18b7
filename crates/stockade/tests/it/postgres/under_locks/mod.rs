//! Caches that serve values from memory to requests that hold the lock of the key.

mod commits;
mod reads;
mod visit;
