//! Locks of one process: the same queue, hand-off, leases and tokens as on Redis, in a table behind a mutex.
//!
//! The memory store is for services of a single process, for tests, and to start without a server. Every change is one
//! critical section of [`Table`](table::Table), as on Redis it is one script. Waiters and holders are notified after
//! the mutex is free. A single timer task ends the leases; it runs while anything can expire.
//!
//! - [`table`]: the locks, and how a free resource is granted. [`attempts`]: how an attempt enters the table.
//! - [`ownerships`]: what changes an existing ownership: renewal, downgrade, adoption, forced release.

mod alarm;
mod attempts;
mod effects;
mod floor;
mod leases;
mod lock;
mod memory_store;
mod ownerships;
mod table;
#[cfg(test)]
mod tests;
mod waiting;

pub(crate) use memory_store::MemoryStore;
