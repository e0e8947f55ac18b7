//! Which node of a Redis Cluster serves which bucket.

mod discovery;
mod slot_map;

pub(crate) use discovery::{Fleet, FleetEvents};
pub(crate) use slot_map::Node;
