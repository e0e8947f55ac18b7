//! The console on the operators' port: a page, what it is made of, and a snapshot of the metrics once a second.

mod assets;
mod events;
mod families;
mod feed;
mod series;
mod snapshot;

pub(super) use assets::routes;
pub(super) use events::events;
pub(super) use feed::Feed;
pub use feed::Sampler;
