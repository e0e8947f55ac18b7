//! The inventory service over HTTP, beside handlers that do the least to the same end. All are served by children of
//! this program, with the same runtime and allocator; this process is their load.

mod changes;
mod floor;
mod reads;
mod wire;
mod within;
mod world;

pub(crate) use changes::{changes, changes_of_one};
pub(crate) use floor::serve as serve_floor;
pub(crate) use reads::{reads, reads_among_writes};
pub(crate) use within::serve as serve_within;
pub(crate) use world::{TASKS, World};
