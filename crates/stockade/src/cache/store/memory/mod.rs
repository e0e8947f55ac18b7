//! The store of a cache that lives in one process.

mod intents;
mod leases;
mod memory_store;

pub(crate) use memory_store::Memory;
