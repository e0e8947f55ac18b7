//! The store of a cache without Redis: the same rules within one process.

mod leases;
mod memory_store;

pub(crate) use memory_store::Memory;
