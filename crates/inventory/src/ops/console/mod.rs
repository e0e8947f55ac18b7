//! The console on the operators' port: a page with its files, and a snapshot of the metrics once a second, of this
//! instance and of all instances.

mod assets;
mod events;
mod families;
mod feed;
mod fleet_page;
mod relay;
mod sampler;
mod series;
mod snapshot;

pub(super) use assets::routes;
pub(super) use events::events;
pub(super) use feed::{Feed, Feeds};
pub use sampler::Sampler;
