//! The inventory service over HTTP, next to the smallest handlers with the same effect. Children of this program serve
//! all of them, with the same runtime and allocator. This process makes the load.

mod changes;
mod floor;
mod reads;
mod reservations;
mod share;
mod wire;
mod within;
mod world;

pub(crate) use changes::{changes, changes_of_one};
pub(crate) use floor::serve as serve_floor;
pub(crate) use reads::{REQUESTS, reads, reads_among_writes};
pub(crate) use reservations::reservations;
pub(crate) use share::Share;
pub(crate) use within::serve as serve_within;
pub(crate) use world::{TASKS, World};
