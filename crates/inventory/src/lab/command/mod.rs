//! `inventory lab`: every scheme, one after the other, in several processes at once, on private servers.

mod args;
mod carrier;
mod chart;
mod counts;
mod dialogue;
mod part;
mod run;
mod setting;
mod stage;
mod stops;
mod table;
mod tally;
mod worker;

pub use args::Args;
pub use run::run;
pub(super) use stops::Stops;
pub use worker::work;

use super::{Failure, sale, scheme, shelf, world};
