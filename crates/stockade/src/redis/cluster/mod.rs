//! Which node of a Redis Cluster serves which bucket.

mod discovery;
mod slot_map;

pub(crate) use discovery::{Discovery, DiscoveryEvents};
