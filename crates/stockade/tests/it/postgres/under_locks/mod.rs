//! Caches whose values are served from memory to those who hold the lock of their key.

mod commits;
mod reads;
mod visit;
