//! Locks of one process: the same queue, hand-off, leases and tokens as on Redis, in a table behind a mutex.
//!
//! For services of a single process, for tests, and to start without a server. Every change is one critical section of
//! [`Table`], as on Redis it is one script; who has to be told is told after the mutex is free. Leases are kept by a
//! single timer task that lives while anything can expire.

mod alarm;
mod effects;
mod floor;
mod leases;
mod lock;
mod memory_store;
mod table;
#[cfg(test)]
mod tests;
mod waiting;

pub(crate) use memory_store::MemoryStore;
